#pragma once
// Which parts of a decoder are run again in backward instead of being kept from forward: memory against work, never the result.
#include <cstdint>
#include <string>
#include <string_view>

namespace spool::nn {

/// As text: none; attention (the attention part of every block, from its norm to its output); block (every block whole: what stays is its
/// input); attention:K and block:K (of the first K blocks: what the last blocks keep is needed first, so recomputing those saves least);
/// group:N (N blocks after each other are one scope); nested:N (such groups, whose blocks are scopes of their own inside).
///
/// With x bytes for a block's input, A for all that it keeps and L blocks, the most that is kept is L·A; x·L + A with block;
/// x·⌈L/N⌉ + A·N with group:N; x·⌈L/N⌉ + x·N + A with nested:N, for one more forward pass.
struct Recompute {
  enum class Scope : uint8_t { none, attention, block };
  Scope scope = Scope::none;
  int64_t first = 0;    ///< K: blocks it is for; 0: all.
  int64_t group = 1;    ///< N: blocks a scope.
  bool nested = false;  ///< A scope for each block inside the group's.

  static const Recompute none, attention, block;
  static Recompute first_blocks(int64_t count) { return {Scope::block, count, 1, false}; }  ///< `count` ≥ 1.
  static Recompute groups(int64_t size, bool nested = false) { return {Scope::block, 0, size, nested}; }

  bool covers(int64_t index) const { return scope != Scope::none && (first == 0 || index < first); }
  bool attention_at(int64_t index) const { return scope == Scope::attention && covers(index); }
  bool block_at(int64_t index) const { return scope == Scope::block && covers(index); }
  int64_t scope_begin(int64_t index) const { return index - index % group; }  ///< First block of the scope around this one.
  bool operator==(const Recompute&) const = default;
};
inline constexpr Recompute Recompute::none{};
inline constexpr Recompute Recompute::attention{Scope::attention, 0, 1, false};
inline constexpr Recompute Recompute::block{Scope::block, 0, 1, false};

std::string to_string(const Recompute& policy);
/// Throws ConfigError "recompute: …" for what is not in the list above.
Recompute parse_recompute(std::string_view text);

}  // namespace spool::nn
