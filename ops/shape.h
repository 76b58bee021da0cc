#pragma once
// Other arrangements of the same elements: reshape and its kin, expand, parts, moves.
#include <spool/ops/expand.h>
#include <spool/ops/moving.h>
#include <spool/ops/reshape.h>
#include <spool/ops/slice.h>
