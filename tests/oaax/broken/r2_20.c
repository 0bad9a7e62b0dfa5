/* Rule R2-20: the state lies in the process, where a second copy finds it. */
#define FAULT_STATE_OF_THE_PROCESS
#include "sound2.h"
