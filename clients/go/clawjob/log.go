package clawjob

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/logs"
	"clawjob.dev/go/internal/work"
)

// LogOptions are the settings of [LogHandler].
type LogOptions struct {
	// Level is the least level that is copied into a run's log; slog.LevelInfo by default.
	Level slog.Leveler
}

// LogHandler copies what a handler says through log/slog into its run's log, and hands every record
// on to next. The run is found by the context, so use the methods that take one:
//
//	slog.SetDefault(slog.New(clawjob.LogHandler(slog.NewTextHandler(os.Stderr, nil), nil)))
//	slog.InfoContext(ctx, "halfway", "rows", rows)
//
// next may be nil, for none. The handler that package slog starts with cannot be wrapped by one that
// becomes the default, since it writes to package log, which then writes to the default; a text
// handler on standard error takes its place.
func LogHandler(next slog.Handler, options *LogOptions) slog.Handler {
	if fmt.Sprintf("%T", next) == "*slog.defaultHandler" {
		next = slog.NewTextHandler(os.Stderr, nil)
	}
	h := &logHandler{next: next, level: slog.LevelInfo}
	if options != nil && options.Level != nil {
		h.level = options.Level
	}
	return h
}

type logHandler struct {
	next  slog.Handler
	level slog.Leveler
	// sink is that of the run it was made for; nil finds it by the context.
	sink   *logs.Sink
	prefix string
	fields []logs.Field
}

// loggedKey marks the context of a record that is in its run's log already.
type loggedKey struct{}

func (h *logHandler) sinkFor(ctx context.Context) *logs.Sink {
	if ctx.Value(loggedKey{}) != nil {
		return nil
	}
	if h.sink != nil {
		return h.sink
	}
	if attempt := work.AttemptOf(ctx); attempt != nil {
		return attempt.Log
	}
	return nil
}

func (h *logHandler) passes(ctx context.Context, level slog.Level) bool {
	return h.next != nil && h.next.Enabled(ctx, level)
}

// Enabled is whether the run's log or the next handler takes the level.
func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return (level >= h.level.Level() && h.sinkFor(ctx) != nil) || h.passes(ctx, level)
}

// Handle copies the record into the run's log and hands it on.
func (h *logHandler) Handle(ctx context.Context, record slog.Record) error {
	if sink := h.sinkFor(ctx); sink != nil && record.Level >= h.level.Level() {
		fields := slices.Clone(h.fields)
		record.Attrs(func(attr slog.Attr) bool {
			fields = flatten(fields, h.prefix, attr)
			return len(fields) < logs.FieldsMax
		})
		push(sink, record, fields)
		ctx = context.WithValue(ctx, loggedKey{}, true)
	}
	if h.passes(ctx, record.Level) {
		return h.next.Handle(ctx, record)
	}
	return nil
}

// WithAttrs is the handler with attributes for every record.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.fields = slices.Clone(h.fields)
	for _, attr := range attrs {
		with.fields = flatten(with.fields, h.prefix, attr)
	}
	if h.next != nil {
		with.next = h.next.WithAttrs(attrs)
	}
	return &with
}

// WithGroup is the handler with a group around what follows.
func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	with := *h
	with.prefix = h.prefix + name + "."
	if h.next != nil {
		with.next = h.next.WithGroup(name)
	}
	return &with
}

// defaultHandler is slog's default at the moment of each record.
type defaultHandler struct{}

func (defaultHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return slog.Default().Enabled(ctx, level)
}

func (defaultHandler) Handle(ctx context.Context, record slog.Record) error {
	return slog.Default().Handler().Handle(ctx, record)
}

func (defaultHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return slog.Default().Handler().WithAttrs(attrs)
}

func (defaultHandler) WithGroup(name string) slog.Handler {
	return slog.Default().Handler().WithGroup(name)
}

// push writes a record into a run's log; without fields they are taken from the record.
func push(sink *logs.Sink, record slog.Record, fields []logs.Field) {
	if fields == nil {
		record.Attrs(func(attr slog.Attr) bool {
			fields = flatten(fields, "", attr)
			return true
		})
	}
	at := record.Time
	if at.IsZero() {
		at = time.Now()
	}
	sink.Push(at, levelOf(record.Level), record.Message, fields)
}

// flatten adds an attribute to the fields; groups become prefixes.
func flatten(fields []logs.Field, prefix string, attr slog.Attr) []logs.Field {
	value := attr.Value.Resolve()
	switch {
	case attr.Equal(slog.Attr{}):
		return fields
	case value.Kind() != slog.KindGroup:
		return append(fields, logs.Field{Name: prefix + attr.Key, Value: text(value)})
	}
	if attr.Key != "" {
		prefix += attr.Key + "."
	}
	for _, inner := range value.Group() {
		fields = flatten(fields, prefix, inner)
	}
	return fields
}

func text(value slog.Value) string {
	if value.Kind() == slog.KindTime {
		return value.Time().Format(time.RFC3339Nano)
	}
	return value.String()
}

func levelOf(level slog.Level) clawjobpb.LogLevel {
	switch {
	case level < slog.LevelDebug:
		return clawjobpb.LogLevel_LOG_LEVEL_TRACE
	case level < slog.LevelInfo:
		return clawjobpb.LogLevel_LOG_LEVEL_DEBUG
	case level < slog.LevelWarn:
		return clawjobpb.LogLevel_LOG_LEVEL_INFO
	case level < slog.LevelError:
		return clawjobpb.LogLevel_LOG_LEVEL_WARN
	default:
		return clawjobpb.LogLevel_LOG_LEVEL_ERROR
	}
}
