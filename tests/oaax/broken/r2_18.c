/* Rule R2-18: each init leaves a descriptor open. */
#define FAULT_LEAKS_DESCRIPTORS
#include "sound2.h"
