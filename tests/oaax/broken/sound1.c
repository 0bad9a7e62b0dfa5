/* The control: a runtime that keeps the rules of OAAX 1.x. */
#include "sound1.h"
