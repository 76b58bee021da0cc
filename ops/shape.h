#pragma once
// Other arrangements of the same elements: reshape and its kin, expand, parts.
#include <spool/ops/expand.h>
#include <spool/ops/reshape.h>
#include <spool/ops/slice.h>
