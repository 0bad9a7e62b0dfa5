/* Rule R2-13: among many requests one output gets lost. */
#define FAULT_LOSES_AN_OUTPUT
#include "sound2.h"
