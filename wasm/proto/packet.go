package proto

import (
	"encoding/binary"
	"fmt"
)

// headerSize is the size of kind and id in front of the payload.
const headerSize = 8

// PacketError says why a packet is not one of ours.
type PacketError struct {
	Kind   Kind
	Offset int // bytes from the start of the packet
	Msg    string
}

func (e *PacketError) Error() string {
	return fmt.Sprintf("proto: packet of kind %d at byte %d: %s", e.Kind, e.Offset, e.Msg)
}

// Encode makes the packet of a message.
func Encode(id uint32, m Message) []byte {
	w := &wire{buf: make([]byte, 0, 64)}
	kind, word := uint32(m.Kind()), id
	w.u32(&kind)
	w.u32(&word)
	codecs[m.Kind()].put(w, m)
	return w.buf
}

// Decode reads one packet. The message shares no memory with the packet. The id is valid as soon as the packet holds
// one, so that a broken request can be answered; every error is a *PacketError.
func Decode(packet []byte) (id uint32, m Message, err error) {
	if len(packet) < headerSize {
		return 0, nil, &PacketError{Offset: len(packet), Msg: "shorter than its header"}
	}
	kind := Kind(binary.LittleEndian.Uint32(packet))
	id = binary.LittleEndian.Uint32(packet[4:])
	c, ok := codecs[kind]
	if !ok {
		return id, nil, &PacketError{Kind: kind, Msg: "unknown kind"}
	}
	w := &wire{buf: packet, off: headerSize, reading: true}
	m = c.get(w)
	if w.err == "" && w.off != len(packet) {
		w.fail("%d bytes too many", len(packet)-w.off)
	}
	if w.err != "" {
		return id, nil, &PacketError{Kind: kind, Offset: w.off, Msg: w.err}
	}
	return id, m, nil
}

// codec reads and writes the payload of one kind.
type codec struct {
	get func(w *wire) Message
	put func(w *wire, m Message)
}

// codecOf makes the codec of a message type from its one list of fields, which serves both directions.
func codecOf[T Message, P interface {
	*T
	fields(w *wire)
}]() codec {
	return codec{
		get: func(w *wire) Message {
			var m T
			P(&m).fields(w)
			return m
		},
		put: func(w *wire, m Message) {
			v := m.(T)
			P(&v).fields(w)
		},
	}
}
