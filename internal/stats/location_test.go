package stats

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// A location knows its variance and degrees of freedom, also of sums, and leaves the values as they are.
func TestLocations(t *testing.T) {
	near := func(name string, got Location, mean, variance, df float64) {
		t.Helper()
		for _, v := range [][2]float64{{got.Mean, mean}, {got.Variance, variance}, {got.DF, df}} {
			if !(math.Abs(v[0]-v[1]) < 1e-9) {
				t.Errorf("%s: %+v, want {%v %v %v}", name, got, mean, variance, df)
				return
			}
		}
	}
	values := []float64{9, 1, 2, 30, 3}
	before := slices.Clone(values)
	near("all", Trimmed(values, 0), 9, 590.0/4/5, 4)
	near("without the ends", Trimmed(values, 1), 14.0/3, (9+9+4+16+16)/2.0/3, 2) // of 2 2 3 9 9
	if !slices.Equal(values, before) {
		t.Errorf("the values are reordered: %v", values)
	}
	if one := Trimmed(values[:1], 0); one.Mean != 9 || !math.IsNaN(one.Variance) {
		t.Errorf("of one value: %+v", one)
	}
	near("difference", Sum(Location{5, 3, 4}, Location{2, 1, 2}.Times(-1)), 3, 4, 16/(9.0/4+1.0/2))
	near("mean of both", Sum(Location{5, 4, 4}, Location{3, 4, 4}).Times(0.5), 4, 2, 8)
}

// Student's t is gonum's, for whole degrees of freedom and others, near 0 and far out.
func TestStudent(t *testing.T) {
	for _, df := range []float64{1, 1.3, 2, 3, 4.7, 8, 30, 99, 1000} {
		student := distuv.StudentsT{Sigma: 1, Nu: df}
		for _, x := range []float64{0, 1e-6, 0.3, 1, 2.5, 7, 40, math.Inf(1)} {
			got, want := Location{-3 * x, 9, df}.P(), 2*student.Survival(x)
			if !(math.Abs(got-want) <= min(1e-9, 1e-6*want+1e-12)) {
				t.Errorf("t = %v with %v degrees of freedom: p = %v, want %v", x, df, got, want)
			}
		}
		got, want := Location{Variance: 4, DF: df}.Half(), 2*student.Quantile(0.975)
		if !(math.Abs(got-want) < 1e-9*want) {
			t.Errorf("%v degrees of freedom: half of the interval is %v, want %v", df, got, want)
		}
	}
}
