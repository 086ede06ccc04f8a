package when

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
)

// operation is an operator or a function of conditions on numbers. A number is an int or a float64;
// where one argument is a float64 the other is converted. Integers are exact or it is an error, and
// so is a result that is not finite: a condition must not hold because a product has wrapped
// around, or because everything is below the quotient of a division by zero.
type operation struct {
	arguments int
	ints      func(a, b int) (int, error)         // nil: integers are converted, too
	floats    func(a, b float64) (float64, error) // nil: there is none on others than integers
}

var arithmetic = map[string]operation{
	"+":     {2, addInts, func(a, b float64) (float64, error) { return a + b, nil }},
	"-":     {2, subtractInts, func(a, b float64) (float64, error) { return a - b, nil }},
	"*":     {2, multiplyInts, func(a, b float64) (float64, error) { return a * b, nil }},
	"/":     {2, nil, divide},
	"%":     {2, moduloInts, nil},
	"**":    {2, nil, func(a, b float64) (float64, error) { return math.Pow(a, b), nil }},
	"min":   {2, func(a, b int) (int, error) { return min(a, b), nil }, func(a, b float64) (float64, error) { return min(a, b), nil }},
	"max":   {2, func(a, b int) (int, error) { return max(a, b), nil }, func(a, b float64) (float64, error) { return max(a, b), nil }},
	"abs":   {1, absInt, func(a, _ float64) (float64, error) { return math.Abs(a), nil }},
	"floor": {1, sameInt, func(a, _ float64) (float64, error) { return math.Floor(a), nil }},
	"ceil":  {1, sameInt, func(a, _ float64) (float64, error) { return math.Ceil(a), nil }},
	"round": {1, sameInt, func(a, _ float64) (float64, error) { return math.Round(a), nil }},
}

// functions are the operations that are written as calls. min and max take any number of arguments.
var functions = []string{"min", "max", "abs", "floor", "ceil", "round"}

var (
	errZero     = errors.New("division by zero")
	errOverflow = errors.New("the number does not fit in 64 bits")
	errInfinite = errors.New("the number is not finite")
)

func addInts(a, b int) (int, error) {
	sum := a + b
	if (sum > a) != (b > 0) {
		return 0, errOverflow
	}
	return sum, nil
}

func subtractInts(a, b int) (int, error) {
	difference := a - b
	if (difference < a) != (b > 0) {
		return 0, errOverflow
	}
	return difference, nil
}

func multiplyInts(a, b int) (int, error) {
	high, low := bits.Mul64(magnitude(a), magnitude(b))
	if high != 0 || low > math.MaxInt {
		return 0, errOverflow
	}
	return a * b, nil
}

func magnitude(a int) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

func moduloInts(a, b int) (int, error) {
	if b == 0 {
		return 0, errZero
	}
	return a % b, nil
}

func absInt(a, _ int) (int, error) {
	if a < 0 {
		return subtractInts(0, a)
	}
	return a, nil
}

func sameInt(a, _ int) (int, error) { return a, nil }

func divide(a, b float64) (float64, error) {
	if b == 0 {
		return 0, errZero
	}
	return a / b, nil
}

// call computes the operation.
func (o operation) call(arguments ...any) (any, error) {
	var ints [2]int
	var floats [2]float64
	integers := o.ints != nil
	for i, v := range arguments {
		switch v := v.(type) {
		case int:
			ints[i], floats[i] = v, float64(v)
		case float64:
			floats[i], integers = v, false
		}
	}
	if integers {
		return o.ints(ints[0], ints[1])
	}
	f, err := o.floats(floats[0], floats[1])
	if err == nil && (math.IsInf(f, 0) || math.IsNaN(f)) {
		err = errInfinite
	}
	return f, err
}

// check returns the type of the operation's result.
func (o operation) check(name string, arguments []reflect.Type) (reflect.Type, error) {
	integers := o.ints != nil
	for _, t := range arguments {
		switch {
		case t.Kind() == reflect.Int:
		case t.Kind() == reflect.Float64 && o.floats != nil:
			integers = false
		case o.floats == nil:
			return nil, fmt.Errorf("%s takes whole numbers, not %s", name, kindName(t))
		default:
			return nil, fmt.Errorf("%s takes numbers, not %s", name, kindName(t))
		}
	}
	if integers {
		return reflect.TypeFor[int](), nil
	}
	return reflect.TypeFor[float64](), nil
}

// kindName says what values of a type are, in a message to the user.
func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number with a fraction"
	case reflect.Bool:
		return "true or false"
	}
	return "text"
}
