#pragma once
// "LLM Training memory", formula by formula: what it says, what is so, and why the two differ.
#include <nlohmann/json_fwd.hpp>

#include <string>

#include "train/config.h"

namespace spool::train {

/// Both throw ConfigError unless the model is a llama. The article knows one number of bytes an element: that of train.dtype.
std::string article_text(const RunConfig& config);
nlohmann::ordered_json article_json(const RunConfig& config);  ///< "schema": "spool.article/1".

}  // namespace spool::train
