// Accounting: bytes count once however many views there are, categories move, peaks are exact, and allocators do what they say.
#include <spool/tensor/ambient.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>
#include <spool/tensor/parallel.h>
#include <spool/tensor/tensor.h>

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

namespace spool::test {
namespace {

struct OnLedger {
  std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>();
  With<std::shared_ptr<Ledger>> on{&Ambient::ledger, ledger};
};

TEST(LedgerTest, CountsStoragesOnceAndReleasesWithTheLastHandle) {
  OnLedger on;
  Tensor tied = zeros({512, 64});
  EXPECT_EQ(on.ledger->live(), 131072) << "512×64 f32";
  {
    const Tensor again = tied, view = tied.view_as({64, 512}, {1, 64}, 0), other = tied.detach();
    EXPECT_EQ(on.ledger->live(), 131072);
    tied = Tensor();
    EXPECT_EQ(on.ledger->live(), 131072) << "views keep the bytes";
  }
  EXPECT_EQ(on.ledger->live(), 0);
  EXPECT_EQ(on.ledger->peak(), 131072);
  EXPECT_EQ(on.ledger->allocations(), 1u);
}

TEST(LedgerTest, ZeroBytesAndBorrowedBytesAreNotPosted) {
  OnLedger on;
  const Tensor nothing = zeros({0, 4});
  EXPECT_EQ(on.ledger->allocations(), 0u);
  auto owner = std::make_shared<std::vector<float>>(4);
  const Storage borrowed(new StorageBody(owner->data(), 16, owner));
  EXPECT_EQ(on.ledger->live(), 0);
  EXPECT_EQ(owner.use_count(), 2);
}

TEST(LedgerTest, MetaPostsWithoutBytes) {
  OnLedger on;
  const Tensor t = empty({int64_t(1) << 40}, Dtype::u8, meta());
  EXPECT_EQ(on.ledger->live(), int64_t(1) << 40);
  EXPECT_EQ(t.raw(), nullptr);
}

TEST(LedgerTest, CategoriesMoveWithTheReason) {
  OnLedger on;
  on.ledger->recording(true);
  Tensor t;
  {
    const With category(&Ambient::category, Category::parameter);
    const PathScope outer("model"), inner("layers.3");
    const With op(&Ambient::op, "initialise");
    t = zeros({4});
  }
  EXPECT_EQ(on.ledger->live_by_category()[Category::parameter], 16);
  {
    const With op(&Ambient::op, "save");
    t.storage()->mark(Category::saved);
    t.storage()->mark(Category::saved);  // nothing new
  }
  t = Tensor();
  const std::vector<Event> events = on.ledger->take_events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].kind, Event::Kind::allocate);
  EXPECT_EQ(path_name(events[0].path), "model.layers.3");
  EXPECT_STREQ(events[0].op, "initialise");
  EXPECT_EQ(events[1].kind, Event::Kind::mark);
  EXPECT_STREQ(events[1].op, "save");
  EXPECT_EQ(events[2].kind, Event::Kind::release);
  EXPECT_EQ(events[2].category, Category::saved);
  EXPECT_EQ(on.ledger->live_by_category().total(), 0);
  EXPECT_TRUE(ambient().path == 0) << "scopes end";
}

TEST(LedgerTest, ScopesHaveInstancesAndNoBytes) {
  Ledger ledger;
  const uint64_t unrecorded = ledger.begin_scope("block", 0);
  ledger.recording(true);
  const uint32_t path = intern_path("layers.0");
  const uint64_t instance = ledger.begin_scope("block", path);
  EXPECT_EQ(instance, unrecorded + 1) << "counted whether recorded or not";
  EXPECT_EQ(ledger.allocate(8, Category::saved, 0, "op"), 1u) << "allocations have numbers of their own";
  ledger.scope(instance, Event::Moment::end, "block", path);
  const std::vector<Event> events = ledger.take_events();
  ASSERT_EQ(events.size(), 3u);
  for (const size_t i : {size_t(0), size_t(2)}) {
    EXPECT_EQ(events[i].kind, Event::Kind::scope);
    EXPECT_EQ(events[i].id, instance);
    EXPECT_EQ(events[i].path, path);
    EXPECT_EQ(events[i].bytes, 0);
    EXPECT_FALSE(events[i].of_buffer());
  }
  EXPECT_FALSE(events[0] == events[2]) << "the moment counts";
  EXPECT_EQ(events[2].moment, Event::Moment::end);
  EXPECT_EQ(ledger.live(), 8);
}

TEST(LedgerTest, PeakKnowsItsCategories) {
  OnLedger on;
  Tensor a = zeros({100}, Dtype::u8);
  {
    const With category(&Ambient::category, Category::scratch);
    const Tensor b = zeros({50}, Dtype::u8);
  }
  const Tensor c = zeros({20}, Dtype::u8);
  EXPECT_EQ(on.ledger->peak(), 150);
  EXPECT_EQ(on.ledger->at_peak()[Category::scratch], 50);
  EXPECT_EQ(on.ledger->at_peak()[Category::temporary], 100);
  on.ledger->reset_peak();
  EXPECT_EQ(on.ledger->peak(), 120);
}

TEST(LedgerTest, ReleasesGoToTheLedgerOfTheAllocation) {
  OnLedger first;
  Tensor t = zeros({4});
  {
    OnLedger second;
    t = Tensor();
    EXPECT_EQ(second.ledger->live(), 0);
  }
  EXPECT_EQ(first.ledger->live(), 0);
}

TEST(LedgerTest, TakesPostsFromSeveralThreads) {
  const auto ledger = std::make_shared<Ledger>();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const With on(&Ambient::ledger, ledger);
      for (int k = 0; k < 500; ++k) zeros({k % 7 + 1});
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(ledger->live(), 0);
  EXPECT_EQ(ledger->allocations(), 2000u);
}

TEST(Allocators, LimitRefusesAndNamesBoth) {
  const With allocator(&Ambient::allocator, limited_allocator(1000));
  OnLedger on;
  const Tensor t = zeros({150});
  try {
    zeros({150});
    FAIL();
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("600 bytes on top of 600 exceed the limit of 1000"), std::string::npos) << error.what();
  }
  EXPECT_EQ(on.ledger->live(), 600) << "a refused allocation is not posted";
  EXPECT_NO_THROW(zeros({100}));
}

TEST(Allocators, PoisonIsNaN) {
  const With allocator(&Ambient::allocator, poisoning_allocator());
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16})
    for (const double value : empty({5}, dtype).to_vector<double>()) EXPECT_TRUE(std::isnan(value)) << dtype_name(dtype);
}

TEST(Allocators, BlocksAreAligned) {
  for (const int64_t n : {1, 3, 17, 100}) EXPECT_EQ(reinterpret_cast<uintptr_t>(empty({n}, Dtype::u8).raw()) % uint64_t(allocation_alignment), 0u);
}

TEST(Parallel, EveryElementOnceWithAnyNumberOfThreads) {
  const int before = num_threads();
  for (const int threads : {1, 2, 3, 7}) {
    set_num_threads(threads);
    for (const int64_t n : {0, 1, 99, 100, 101, 123457}) {
      std::vector<int> hits(static_cast<size_t>(n));
      parallel_range(n, 100, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++hits[size_t(i)];
      });
      EXPECT_EQ(std::count(hits.begin(), hits.end(), 1), n);
    }
  }
  set_num_threads(before);
  EXPECT_THROW(set_num_threads(0), Error);
}

}  // namespace
}  // namespace spool::test
