/* Rule R2-5: an init that is refused leaves the runtime half initialised. */
#define FAULT_POISONED_INIT
#include "sound2.h"
