package tuner

// async calls f on a goroutine of its own. wait returns its result on the caller's;
// so does it raise a panic of f there, where the caller's caller contains it.
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
