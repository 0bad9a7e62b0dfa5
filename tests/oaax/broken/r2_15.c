/* Rule R2-15: inputs that were taken over are never freed. */
#define FAULT_LEAKS_INPUTS
#include "sound2.h"
