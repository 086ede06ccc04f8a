/* Go starts its first thread in a constructor of this library, and all of its threads
 * take over that one's signal mask. So everything is blocked in the thread that loads
 * the library while that constructor runs: one with a priority runs before it, one
 * without after it, for the linker puts Go's object first. */
#include "signals.h"

static sigset_t loaders;

__attribute__((constructor(101))) static void before_go(void) { signals_hold(&loaders); }
__attribute__((constructor)) static void after_go(void) { signals_release(&loaders); }
