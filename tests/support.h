#pragma once
// What all tests share: where their data is, and how to skip without it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace spool::test {

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
