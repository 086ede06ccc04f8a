package tuner

// async calls f on a goroutine of its own. wait returns f's result, and raises a panic of f
// on its own goroutine, where the callback's recover contains it.
func async[T any](f func() T) (wait func() T) {
	type outcome struct {
		result   T
		panicked any
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			o.panicked = recover()
			done <- o
		}()
		o.result = f()
	}()
	return func() T {
		o := <-done
		if o.panicked != nil {
			panic(o.panicked)
		}
		return o.result
	}
}
