/* Go starts its first thread in a constructor of this library, and all its threads inherit that thread's
 * signal mask. So the thread that loads the library blocks everything while that constructor runs. A
 * constructor with a priority runs before it. One without runs after it, because the linker puts Go's object
 * first. */
#include "signals.h"

static sigset_t loaders; /* the mask of the thread that loads the library */

__attribute__((constructor(101))) static void before_go(void) { signals_hold(&loaders); }
__attribute__((constructor)) static void after_go(void) { signals_release(&loaders); }
