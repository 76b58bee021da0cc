// Regions: parameters and optimizer state lie in one block each, of the size that building them on meta posted; everything else is the system's.
#include "tests/support.h"

namespace spool::test {
namespace {

struct Built {
  explicit Built(Device device, Dtype dtype) : model(nn::root({.seed = 1, .dtype = dtype, .device = device}), {.hidden_size = 32, .num_hidden_layers = 2, .num_attention_heads = 2}), adam(model.named_parameters(), {.lr = 1e-3}) { adam.prepare(); }
  nn::Llama model;
  Adam adam;
};

TEST(Regions, HoldParametersAndOptimizerState) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    const auto ledger = std::make_shared<Ledger>();
    const With on(&Ambient::ledger, ledger);
    ledger->recording(true);
    { const Built planned(meta(), dtype); }
    const auto regions = std::make_shared<Regions>(ledger->take_events());
    ledger->recording(false);
    {
      std::optional<Built> built;
      {
        const With<std::shared_ptr<Allocator>> in(&Ambient::allocator, regions);
        built.emplace(cpu, dtype);
      }
      for (const Category category : {Category::parameter, Category::optimizer}) {
        EXPECT_EQ(regions->used(category), regions->size(category)) << category_name(category) << ": the plan's bytes are those of the run";
        EXPECT_GE(regions->size(category), ledger->live_by_category()[category]);
        EXPECT_LT(regions->size(category), ledger->live_by_category()[category] + 64 * 200) << "but for rounding";
      }
      EXPECT_EQ(regions->size(Category::temporary), 0);
      std::vector<std::pair<const std::byte*, int64_t>> places;
      for (const auto& [name, p] : built->model.named_parameters()) places.push_back({static_cast<const std::byte*>(p.raw()), p.nbytes()});
      std::sort(places.begin(), places.end());
      for (size_t i = 1; i < places.size(); ++i) EXPECT_GE(places[i].first, places[i - 1].first + places[i - 1].second) << "parameters overlap";
      EXPECT_LE(places.back().first + places.back().second - places.front().first, regions->size(Category::parameter)) << "all in one block";
      const Built elsewhere(cpu, dtype);
      const auto a = built->model.named_parameters(), b = elsewhere.model.named_parameters();
      for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].second.to_vector<double>(), b[i].second.to_vector<double>()) << a[i].first;
    }
  }
}

TEST(Regions, WhatDoesNotFitComesFromTheSystem) {
  const auto regions = std::make_shared<Regions>(std::vector<Event>{});
  const With<std::shared_ptr<Allocator>> in(&Ambient::allocator, regions);
  const With category(&Ambient::category, Category::parameter);
  EXPECT_EQ(full({100}, 3).to_vector<double>(), std::vector<double>(100, 3.0));
  EXPECT_EQ(regions->used(Category::parameter), 0);
}

}  // namespace
}  // namespace spool::test
