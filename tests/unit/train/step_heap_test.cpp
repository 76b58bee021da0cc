// What a step in an arena takes beside it: after the first steps nothing stays on the heap, and what libraries take inside is bounded.
#include <malloc.h>
#include <spool/autograd/arena.h>

#include "../../support.h"
#include "support.h"
#include "train/process_memory.h"
#include "train/step.h"

namespace spool::train::testing {
namespace {

int64_t on_the_heap() {
  const struct mallinfo2 info = mallinfo2();
  return int64_t(info.uordblks + info.hblkhd);
}

TEST(StepHeap, AStepInAnArenaTakesNextToNothingBesideIt) {
  SKIP_IN_SLOW_BUILD();
  for (const char* preset : {"enwik8-small", "llama-tiny", "gpt-tiny"}) {
    RunConfig config = resolve({.preset = preset, .file = {}, .hf = {}, .settings = {}});
    config.data.path = SPOOL_SOURCE_DIR "/train";
    config.data.seq = 257;
    config.data.batch = 1;
    if (config.model.type == ModelType::performer) config.train.chunk = 64;
    const bool chunked = config.train.chunked_at(0);
    const auto ledger = std::make_shared<Ledger>();
    const With on(&Ambient::ledger, ledger);
    const Dataset data = Dataset::open(config.data, options_of(config));
    const auto model = make_model(config);
    const auto optimizer = make_optimizer(config, *model);
    optimizer->prepare();
    const auto arena = std::make_shared<Arena>(plan_step(config, chunked).step);
    const auto step = [&](int64_t index) {
      const ArenaStep in(arena);
      train_step(config, *model, *optimizer, feed(config, data.train(index)), index);
      in.finish();
    };
    for (int64_t index = 0; index < 3; ++index) step(index);
    const int64_t heap = on_the_heap();
    const bool measured = reset_peak_resident();
    const int64_t resident = peak_resident_bytes();
    for (int64_t index = 3; index < 6; ++index) step(index);
    EXPECT_LE(on_the_heap() - heap, 64 << 10) << preset << ": steps leave bytes behind";
    if (measured) {
      EXPECT_LE(peak_resident_bytes() - resident, 4 << 20) << preset << ": libraries take more inside a step";
    }
  }
}

}  // namespace
}  // namespace spool::train::testing
