/**
 * The messages of Perfetto's published protos (protos/perfetto/trace/ of google/perfetto, Apache
 * 2.0) that are written: names and numbers of their fields, and nothing else of them.
 */
export const PERFETTO_PROTO = `syntax = "proto2";
package perfetto.protos;

message Trace {
  repeated TracePacket packet = 1;
}

message TracePacket {
  optional uint64 timestamp = 8;
  optional uint32 timestamp_clock_id = 58;
  oneof data {
    ClockSnapshot clock_snapshot = 6;
    TrackEvent track_event = 11;
    TrackDescriptor track_descriptor = 60;
  }
  oneof optional_trusted_packet_sequence_id {
    uint32 trusted_packet_sequence_id = 10;
  }
  optional InternedData interned_data = 12;
  enum SequenceFlags {
    SEQ_UNSPECIFIED = 0;
    SEQ_INCREMENTAL_STATE_CLEARED = 1;
    SEQ_NEEDS_INCREMENTAL_STATE = 2;
  }
  optional uint32 sequence_flags = 13;
  optional TracePacketDefaults trace_packet_defaults = 59;
  optional bool previous_packet_dropped = 42;
  optional bool first_packet_on_sequence = 87;
}

message TracePacketDefaults {
  optional uint32 timestamp_clock_id = 58;
  optional TrackEventDefaults track_event_defaults = 11;
}

message TrackEventDefaults {
  optional uint64 track_uuid = 11;
}

enum BuiltinClock {
  BUILTIN_CLOCK_UNKNOWN = 0;
  BUILTIN_CLOCK_REALTIME = 1;
  BUILTIN_CLOCK_MONOTONIC = 3;
  BUILTIN_CLOCK_BOOTTIME = 6;
}

message ClockSnapshot {
  message Clock {
    optional uint32 clock_id = 1;
    optional uint64 timestamp = 2;
    optional bool is_incremental = 3;
    optional uint64 unit_multiplier_ns = 4;
  }
  repeated Clock clocks = 1;
  optional BuiltinClock primary_trace_clock = 2;
}

message TrackEvent {
  enum Type {
    TYPE_UNSPECIFIED = 0;
    TYPE_SLICE_BEGIN = 1;
    TYPE_SLICE_END = 2;
    TYPE_INSTANT = 3;
    TYPE_COUNTER = 4;
  }
  repeated uint64 category_iids = 3;
  repeated DebugAnnotation debug_annotations = 4;
  optional Type type = 9;
  oneof name_field {
    uint64 name_iid = 10;
  }
  optional uint64 track_uuid = 11;
  oneof source_location_field {
    uint64 source_location_iid = 34;
  }
}

message DebugAnnotation {
  oneof name_field {
    string name = 10;
  }
  oneof value {
    uint64 uint_value = 3;
    int64 int_value = 4;
    double double_value = 5;
    string string_value = 6;
    uint64 pointer_value = 7;
  }
}

message TrackDescriptor {
  optional uint64 uuid = 1;
  optional string name = 2;
  optional ProcessDescriptor process = 3;
  optional ThreadDescriptor thread = 4;
  optional uint64 parent_uuid = 5;
}

message ProcessDescriptor {
  optional int32 pid = 1;
  repeated string cmdline = 2;
  optional string process_name = 6;
}

message ThreadDescriptor {
  optional int32 pid = 1;
  optional int32 tid = 2;
  optional string thread_name = 5;
}

message InternedData {
  repeated EventCategory event_categories = 1;
  repeated EventName event_names = 2;
  repeated SourceLocation source_locations = 4;
}

message EventCategory {
  optional uint64 iid = 1;
  optional string name = 2;
}

message EventName {
  optional uint64 iid = 1;
  optional string name = 2;
}

message SourceLocation {
  optional uint64 iid = 1;
  optional string file_name = 2;
  optional string function_name = 3;
  optional uint32 line_number = 4;
}
`;
