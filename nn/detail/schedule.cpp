#include <spool/autograd/op.h>
#include <spool/nn/detail/schedule.h>
#include <spool/tensor/error.h>

#include <map>

namespace spool::nn::detail {

void Schedule::op(std::string_view what, int64_t results, int64_t scratch, int64_t beside) {
  live_ += results;
  work_ += double(results + beside);
  if (live_ + scratch + beside <= peak_.bytes) return;
  std::string at(place_);
  if (index_ >= 0) at.append(".").append(std::to_string(index_));
  if (!at.empty()) at += ", ";
  peak_ = {at + std::string(what), live_ + scratch + beside, scratch, gradients_};
}

void Schedule::place(std::string_view what, int64_t index) {
  place_ = what;
  index_ = index;
}

namespace {
const OpInfo& op_named(std::string_view name) {
  static const auto ops = [] {
    std::map<std::string_view, const OpInfo*> by_name;
    for (const OpInfo* info : registered_ops()) by_name.emplace(info->name, info);
    return by_name;
  }();
  const auto found = ops.find(name);
  if (found == ops.end()) fail<Error>("estimate: there is no op ", name);
  return *found->second;
}
}  // namespace

int64_t declared_scratch(std::string_view op, const Metas& inputs, const void* attrs) {
  const OpInfo& info = op_named(op);
  return info.scratch ? info.scratch(inputs, attrs ? attrs : info.default_attrs.get()) : 0;
}

double declared_work(std::string_view op, const Metas& inputs, const void* attrs) {
  const OpInfo& info = op_named(op);
  return info.cost(inputs, attrs ? attrs : info.default_attrs.get()).flops;
}

int64_t product_scratch(int64_t m, int64_t k, int64_t n, Dtype dtype) { return declared_scratch("matmul", {Meta{{m, k}, dtype}, Meta{{k, n}, dtype}}); }

}  // namespace spool::nn::detail
