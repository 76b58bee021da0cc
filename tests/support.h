#pragma once
// What all tests share: where their data is, and how to skip without it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SPOOL_TEST_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SPOOL_TEST_SANITIZED 1
#endif

namespace spool::test {

#ifdef SPOOL_TEST_SANITIZED
inline constexpr bool slow_build = true;
#else
inline constexpr bool slow_build = false;
#endif

/// A file of the shared data ("enwik8/enwik8.prefix"), below SPOOL_DATA_DIR when that is set.
inline std::filesystem::path data_path(const std::string& name) {
  const char* elsewhere = std::getenv("SPOOL_DATA_DIR");
  return std::filesystem::path(elsewhere && *elsewhere ? elsewhere : SPOOL_SHARED_DATA) / name;
}

}  // namespace spool::test

/// Skips the running test unless that file of the shared data exists.
#define SPOOL_REQUIRE_DATA(name)                              \
  if (!std::filesystem::exists(::spool::test::data_path(name))) \
  GTEST_SKIP() << "needs " << ::spool::test::data_path(name) << " (set SPOOL_DATA_DIR)"

/// Big sizes prove nothing more under a sanitizer and take minutes there.
#define SKIP_IN_SLOW_BUILD() \
  if (::spool::test::slow_build) GTEST_SKIP() << "sizes for the release build"
