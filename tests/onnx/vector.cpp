#include "vector.h"

#define ONNX_ML 1
#define ONNX_NAMESPACE onnx
#include <onnx/onnx_pb.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

namespace spool::onnx_test {
namespace {

template <class Message>
Message parsed(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  Message message;
  if (!in || !message.ParseFromIstream(&in)) throw std::runtime_error("not readable as protobuf: " + file.string());
  return message;
}

Dtype dtype_for(const onnx::TensorProto& t) {
  using T = onnx::TensorProto;
  switch (t.data_type()) {
    case T::FLOAT: return Dtype::f32;
    case T::DOUBLE: return Dtype::f64;
    case T::FLOAT16: return Dtype::f16;
    case T::BFLOAT16: return Dtype::bf16;
    case T::INT32: return Dtype::i32;
    case T::INT64: return Dtype::i64;
    case T::UINT8: return Dtype::u8;
    case T::BOOL: return Dtype::boolean;
    default: throw Unsupported("elements of type " + T::DataType_Name(T::DataType(t.data_type())) + ", which Spool does not have");
  }
}

/// Elements from a typed field, where the file does not hold raw bytes.
template <class To, class Field>
void take(const Tensor& to, const Field& field) {
  if (field.size() != to.numel()) throw std::runtime_error("a tensor's field holds another number of elements than its shape");
  for (int i = 0; i < field.size(); ++i) {
    const auto value = field.Get(i);
    const To element = To(value);
    std::memcpy(static_cast<char*>(to.raw()) + size_t(i) * sizeof(To), &element, sizeof(To));
  }
}

Tensor tensor_from(const onnx::TensorProto& t) {
  Shape shape;
  for (const int64_t size : t.dims()) shape.push_back(size);
  const Tensor out = empty(shape, dtype_for(t));
  if (out.numel() == 0) return out;
  if (t.has_raw_data()) {
    if (int64_t(t.raw_data().size()) != out.nbytes()) throw std::runtime_error("a tensor holds another number of bytes than its shape");
    std::memcpy(out.raw(), t.raw_data().data(), t.raw_data().size());
    return out;
  }
  switch (out.dtype()) {
    case Dtype::f32: take<float>(out, t.float_data()); break;
    case Dtype::f64: take<double>(out, t.double_data()); break;
    case Dtype::i64: take<int64_t>(out, t.int64_data()); break;
    case Dtype::i32: take<int32_t>(out, t.int32_data()); break;
    case Dtype::f16:
    case Dtype::bf16: take<uint16_t>(out, t.int32_data()); break;  // bit patterns
    default: take<uint8_t>(out, t.int32_data());
  }
  return out;
}

Attributes attributes_of(const onnx::NodeProto& node) {
  Attributes all;
  for (const onnx::AttributeProto& a : node.attribute()) {
    Attributes::Value value;
    value.integer = a.i();
    value.number = double(a.f());
    value.text = a.s();
    value.integers.assign(a.ints().begin(), a.ints().end());
    value.numbers.assign(a.floats().begin(), a.floats().end());
    if (a.has_t()) value.tensor = tensor_from(a.t());
    all.set(a.name(), std::move(value));
  }
  return all;
}

/// The graph's inputs or outputs by name, read from the files beside the model.
template <class Values>
std::map<std::string, Tensor> named(const Values& values, const std::filesystem::path& set, const char* kind) {
  std::map<std::string, Tensor> tensors;
  int i = 0;
  for (const onnx::ValueInfoProto& value : values) {
    if (!value.type().has_tensor_type()) throw Unsupported("a value that is a sequence or optional, not a tensor");
    tensors[value.name()] = tensor_from(parsed<onnx::TensorProto>(set / (kind + std::string("_") + std::to_string(i++) + ".pb")));
  }
  return tensors;
}

template <class Names>
Tensors in_order(const Names& names, const std::map<std::string, Tensor>& tensors) {
  Tensors ordered;
  for (const std::string& name : names) ordered.push_back(tensors.contains(name) ? tensors.at(name) : Tensor());
  return ordered;
}

Vector header_of(const std::filesystem::path& directory, const onnx::ModelProto& model) {
  Vector v;
  v.name = directory.filename().string();
  if (v.name.starts_with("test_")) v.name.erase(0, 5);
  v.nodes = model.graph().node_size();
  if (v.nodes > 0) v.type = model.graph().node(0).op_type();
  return v;
}

}  // namespace

Vector read_header(const std::filesystem::path& directory) { return header_of(directory, parsed<onnx::ModelProto>(directory / "model.onnx")); }

Vector read_vector(const std::filesystem::path& directory) {
  const auto model = parsed<onnx::ModelProto>(directory / "model.onnx");
  const auto& graph = model.graph();
  Vector v = header_of(directory, model);
  const auto set = directory / "test_data_set_0";
  v.attributes = attributes_of(graph.node(0));
  v.inputs = in_order(graph.node(0).input(), named(graph.input(), set, "input"));
  v.outputs = in_order(graph.node(0).output(), named(graph.output(), set, "output"));
  return v;
}

std::filesystem::path data_directory() {
  const char* given = std::getenv("SPOOL_ONNX_DATA");
  return given && *given ? given : "/usr/share/libonnx-testdata/data/node";
}

}  // namespace spool::onnx_test
