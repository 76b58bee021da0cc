#include <spool/tensor/error.h>

#include <cstdio>

namespace spool::detail {

void append(std::string& out, double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  out += text;
}

}  // namespace spool::detail
