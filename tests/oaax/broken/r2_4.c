/* Rule R2-4: load looks at its arguments before it says that nothing is initialised. */
#define FAULT_ARGUMENTS_FIRST
#include "sound2.h"
