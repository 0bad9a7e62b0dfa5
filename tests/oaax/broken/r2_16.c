/* Rule R2-16: a request that fails is never heard of again. */
#define FAULT_LOSES_FAILURES
#include "sound2.h"
