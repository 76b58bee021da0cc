#include "train/data.h"

#include <fmt/format.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "train/format.h"

namespace spool::train {

Split proportional_split(int64_t size) {
  const int64_t train = size / 10 * 9 + size % 10 * 9 / 10, validation = size / 20;
  return {{0, train}, {train, train + validation}, {train + validation, size}};
}

Split enwik8_split(int64_t size) {
  constexpr int64_t million = 1'000'000;
  return {{0, 90 * million}, {90 * million, 95 * million}, {95 * million, std::min(size, 100 * million)}};
}

bool is_enwik8(const std::filesystem::path& path, int64_t size) {
  std::string name = path.filename().string();
  std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  return size == 100'000'000 || (size >= 95'000'000 && name.substr(0, name.find('.')) == "enwik8");
}

Windows::Windows(CorpusPtr corpus, Part part, int64_t window, std::string_view what)
    : corpus_(std::move(corpus)), part_(part), window_(window) {
  if (window < 1) fail<ConfigError>("windows: the window size must be at least 1, but is ", window);
  if (count() > 0) return;
  fail<IoError>(fmt::format("{}: too short: the {} part has {} of the {} bytes, but {} are needed; use longer data, or set data.seq or data.batch lower",
                            corpus_->name(), what, format_count(part.size()), format_count(corpus_->size()), format_count(window)));
}

void Windows::read(int64_t index, std::span<uint8_t> out) const {
  if (int64_t(out.size()) != window_ || index < 0)
    fail<IndexError>("windows: asked for ", out.size(), " bytes of window ", index, ", but windows have ", window_, " bytes");
  read_at(index % count() * window_, out);
}

void Windows::read_at(int64_t offset, std::span<uint8_t> out) const { corpus_->read(part_.begin + offset, out); }

int64_t permuted(int64_t index, int64_t count, RandomKey key) {
  const int half = (std::bit_width(uint64_t(std::max<int64_t>(count - 1, 1))) + 1) / 2;
  const uint64_t mask = (uint64_t(1) << half) - 1;
  uint64_t at = uint64_t(index);
  do {
    uint64_t left = at >> half, right = at & mask;
    for (uint32_t round = 0; round < 4; ++round) {
      const uint64_t mixed = philox4x32({uint32_t(right), uint32_t(right >> 32), round, 0}, key.words())[0];
      left = std::exchange(right, (left ^ mixed) & mask);
    }
    at = left << half | right;
  } while (at >= uint64_t(count));
  return int64_t(at);
}

ShuffledWindows::ShuffledWindows(CorpusPtr corpus, Part part, int64_t window, RandomKey key, std::string_view what)
    : windows_(std::move(corpus), part, window, what), key_(key) {}

void ShuffledWindows::read(int64_t index, std::span<uint8_t> out) const {
  const RandomKey epoch = key_.fold(uint64_t(index / count()));
  const int64_t room = windows_.size() - count() * window() + 1;  // the grid's possible starts
  const int64_t offset = Generator(epoch.fold("offset")).integer(0, std::min(window(), room));
  windows_.read_at(offset + permuted(index % count(), count(), epoch) * window(), out);
}

std::vector<int64_t> fixed_windows(int64_t count, int64_t wanted) {
  const int64_t n = wanted <= 0 ? count : std::min(count, wanted);
  std::vector<int64_t> out(size_t(std::max<int64_t>(n, 0)));
  for (int64_t i = 0; i < n; ++i) out[size_t(i)] = int64_t(double(i) * double(count) / double(n));
  return out;
}

void copy_sequence(uint64_t seed, std::string_view stream, int64_t step, int64_t row, std::span<uint8_t> out) {
  const size_t half = out.size() / 2;
  if (out.size() < 4 || out.size() % 2 != 0) fail<ConfigError>("copying task: the sequence length must be even and at least 4, but is ", out.size());
  const auto key = RandomKey(seed).fold("data.copy").fold(stream).words();
  out[0] = 0;
  std::array<uint32_t, 4> words{};
  for (size_t i = 1; i < half; ++i) {
    if (const size_t draw = i - 1; draw % 4 == 0)
      words = philox4x32({uint32_t(draw / 4), uint32_t(row), uint32_t(step), uint32_t(uint64_t(step) >> 32)}, key);
    out[i] = uint8_t(1 + ((uint64_t(words[(i - 1) % 4]) * 255) >> 32));
  }
  std::copy_n(out.begin(), half, out.begin() + std::ptrdiff_t(half));
}

}  // namespace spool::train
