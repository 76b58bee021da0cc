// Runs a target without libFuzzer: on every file of the corpora and on mutations of each, which a fixed generator makes.
//   spool_fuzz_NAME [--mutations N] [--trace] CORPUS...     (2,000 mutations of each file; --trace names each input before it runs)
#include "fuzz.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Bytes = std::string;

Bytes read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Mutator {
 public:
  Mutator(uint64_t seed, const std::vector<Bytes>& others) : random_(seed), others_(others) {}
  Bytes operator()(Bytes bytes) {
    const size_t changes = below(4) ? 1 : 1 + below(8);
    for (size_t i = 0; i < changes; ++i) change(bytes);
    return bytes;
  }

 private:
  size_t below(size_t n) { return n ? size_t(random_() % n) : 0; }
  void change(Bytes& b) {
    const size_t at = below(b.size() + 1), length = below(std::min<size_t>(b.size() - at, 64) + 1);
    switch (below(9)) {
      case 0:
        if (at < b.size()) b[at] = char(b[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < b.size()) b[at] = char(below(256));
        break;
      case 2: b.erase(at, length); break;
      case 3: b.insert(at, b.substr(at, length)); break;
      case 4: {
        static constexpr char marks[] = {'\0', '\xff', '{', '}', '[', ']', '"', ',', ':', '0', ' ', '9', 'e', '-'};
        b.insert(at, 1 + below(8), marks[below(std::size(marks))]);
        break;
      }
      case 5: b.resize(at); break;
      case 6: {  // a number where one of four or eight bytes may stand
        static constexpr uint64_t numbers[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff, 0x8000000000000000, ~uint64_t(0)};
        const uint64_t number = numbers[below(std::size(numbers))];
        const size_t width = std::min<size_t>(b.size() - at, below(2) ? 4 : 8);
        std::memcpy(b.data() + at, &number, width);
        break;
      }
      case 7: {  // a number in digits
        static constexpr const char* numbers[] = {"-1", "0", "1e999", "2147483646", "2147483648", "4294967296", "9223372036854775808", "18446744073709551616", "1.5", "null", "true", "{}", "[]", "\"\""};
        const size_t digit = b.find_first_of("0123456789", at);
        if (digit != b.npos) b.replace(digit, b.find_first_not_of("0123456789", digit) - digit, numbers[below(std::size(numbers))]);
        break;
      }
      default: {
        const Bytes& other = others_[below(others_.size())];
        const size_t from = below(other.size() + 1);
        b.replace(at, length, other.substr(from, below(64)));
      }
    }
  }
  std::mt19937_64 random_;
  const std::vector<Bytes>& others_;
};

int run(const Bytes& input, const std::string& name, bool trace) {
  if (trace) std::fprintf(stderr, "%s\n", name.c_str());
  try {
    return LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
    std::ofstream("finding", std::ios::binary) << input;
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  size_t mutations = 2000;
  bool trace = false;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--trace") trace = true;
    else if (argument == "--mutations" && i + 1 < argc) mutations = std::stoul(argv[++i]);
    else if (fs::is_directory(argument)) for (const auto& entry : fs::directory_iterator(argument)) files.push_back(entry.path());
    else files.emplace_back(argument);
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) return std::fprintf(stderr, "no corpus given\n"), 2;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // What a file claims must not be allocated: with this much address space, a claim of gigabytes fails.
  const rlimit space{rlim_t(1) << 30, rlim_t(1) << 30};
  ::setrlimit(RLIMIT_AS, &space);
#endif
  std::vector<Bytes> corpus;
  for (const fs::path& file : files) corpus.push_back(read(file));
  for (size_t i = 0; i < corpus.size(); ++i)
    if (run(corpus[i], files[i].filename().string(), trace)) return 1;
  if (spool::fuzz::accepted == 0) return std::fprintf(stderr, "no file of the corpus is accepted\n"), 1;
  for (size_t i = 0; i < corpus.size(); ++i) {
    const std::string name = files[i].filename().string();
    Mutator mutate(i + 1, corpus);
    Bytes bytes = corpus[i];
    for (size_t m = 0; m < mutations; ++m) {  // every third begins anew, the others build on the last
        bytes = mutate(m % 3 == 0 ? corpus[i] : bytes);
      if (bytes.size() > 4 * corpus[i].size() + 1000) bytes = corpus[i];
      if (run(bytes, name + " mutation " + std::to_string(m), trace)) return 1;
    }
  }
  std::printf("%zu files, %zu mutations each, %lld inputs accepted\n", corpus.size(), mutations, static_cast<long long>(spool::fuzz::accepted));
}
