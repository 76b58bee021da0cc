#pragma once
// nn::blockwise, told op by op: a feed-forward part that runs a piece of the positions at a time, and again in backward. Private to the
// estimates.
#include <spool/nn/detail/decoder_part.h>

#include <algorithm>

namespace spool::nn::detail {

/// What one piece is made of, for `chunk` positions or fewer; all positions where nothing is cut.
struct FeedForwardPart : DecoderPart {
  const int64_t f, F;     ///< Feed-forward width, bytes of [T, f].
  const int64_t strided;  ///< Bytes of [T, h] made contiguous: a piece of several sequences is not.
  FeedForwardPart(const StepSizes& sizes, const DecoderWidths& w, Schedule& schedule, int64_t positions, int64_t width)
      : DecoderPart(sizes, w, schedule, positions), f(width), F(T * f * e), strided(sizes.batch > 1 && positions < sizes.length ? X : 0) {}
};

inline bool in_pieces(const StepSizes& z) { return z.loss.feed_forward_chunk > 0 && z.loss.feed_forward_chunk < z.length; }

/// Calls f(piece, whether it is the first) in order or in reverse. Those in the middle are alike: two of them are told.
template <class Piece, class Make, class F>
void each_piece(const StepSizes& z, bool reverse, const Make& made, const F& f) {
  const int64_t chunk = z.loss.feed_forward_chunk, pieces = (z.length + chunk - 1) / chunk;
  for (int64_t i = 0; i < pieces; ++i) {
    if (i == 2) i = std::max<int64_t>(i, pieces - 2);
    const int64_t n = reverse ? pieces - 1 - i : i;
    Piece piece = made(std::min(chunk, z.length - n * chunk));
    const double before = piece.s.work();
    f(piece, i == 0);
    if (i == 1 && pieces > 4) piece.s.work(double(pieces - 4) * (piece.s.work() - before));
  }
}

/// From h, which stays, to the pieces' results joined. `made(positions)` gives a Piece with forward(kept), from h to the result.
template <class Piece, class Make>
void blockwise(const DecoderPart& whole, const Make& made) {
  each_piece<Piece>(whole.z, false, made, [&](Piece& piece, bool first) {
    piece.forward(false);
    if (first) whole.s.op("pieces", whole.X);
    whole.s.drop(piece.X);
  });
}

/// From the result's cotangent, which goes, to h's. `backward()` of a piece leaves the cotangent of its part of h. `in_place`: h has a
/// cotangent of its own already, to which they are added.
template <class Piece, class Make>
void blockwise_backward(const DecoderPart& whole, bool in_place, const Make& made) {
  each_piece<Piece>(whole.z, true, made, [&](Piece& piece, bool first) {
    piece.gathered = whole.gathered || !first;
    piece.forward(true);
    whole.s.drop(piece.X);  // the result is not used again
    piece.backward();
    if (first && !in_place) whole.s.op("slice backward", whole.X);
    whole.s.drop(piece.X);
  });
  whole.s.drop(whole.X);
}

}  // namespace spool::nn::detail
