#pragma once
// Near misses: which known word someone meant.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace spool::train {

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
size_t edit_distance(std::string_view a, std::string_view b);

/// Lower case, with '-' and ' ' as '_': how words are compared.
std::string normalised(std::string_view word);

/// How far a known word is from what was written, comparing normalised words; a beginning of at least three letters counts as near (2,
/// more than a single slip). Words too different to be meant have distance npos.
size_t miss_distance(std::string_view written, std::string_view known);

/// The known word nearest to the one written, or "" if none is near.
std::string_view nearest(std::string_view written, std::span<const std::string_view> known);

}  // namespace spool::train
