#pragma once
// What a target promises: for any bytes it returns, or the reader throws an IoError whose message is one line and begins with the file's
// name. Anything else, a crash, another exception, a message of several lines, is a finding.
#include <spool/tensor/error.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace spool::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) { return {reinterpret_cast<const char*>(data), size}; }

inline void require(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %.*s\n", int(what.size()), what.data());
  std::abort();
}

/// Inputs that a reader took: a corpus of refused files would test little.
inline int64_t accepted = 0;

/// Runs a reader of the file `name`; true unless it refused the bytes.
template <class F> bool accepts(std::string_view name, const F& read) {
  try {
    read();
    ++accepted;
    return true;
  } catch (const IoError& error) {
    const std::string_view message = error.what();
    require(message.starts_with(name), "a message that does not begin with the file's name");
    require(message.find('\n') == message.npos, "a message of several lines");
    require(message.size() < 2000, "a very long message");
    return false;
  }
}

}  // namespace spool::fuzz
