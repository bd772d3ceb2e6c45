// SPDX-License-Identifier: Apache-2.0
/*
 * Runs on packets that leave the host by a VM's tap: counts traffic to the guest, and holds it while the guest sleeps.
 *
 * The program runs in the kernel even while the daemon is down, because its maps are pinned.
 * src/host/ebpf/traffic-maps.ts has the same layouts. If a layout or the size of a map changes, the directory of the
 * pinned maps must get a new name (LAYOUT).
 *
 * Needs Linux 6.1 or later. It uses only the stable interface for programs (linux/bpf.h), so nothing has to be
 * relocated: one object works on all kernels. It uses no helper that requires a GPL-compatible licence.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* Devices that may be watched at a time. Only existing entries take memory. */
#define GUESTS_MAX 65536
/* Same values as limits.ignoredSourcesMax and limits.ignoredPortsMax. */
#define IGNORED_SOURCES_MAX 1024
#define IGNORED_PORTS_MAX 64
/* Default size; the loader sets limits.trafficEventsBytes. */
#define EVENTS_BYTES (4 * 1024 * 1024)
/* Bound on extension headers of IPv6; an honest packet does not have more (RFC 8504, 5.3). */
#define IPV6_EXTENSIONS_MAX 6

enum mode { FLOWING = 0, HELD = 1 };

/* Key: device index. Only the daemon writes this. */
struct guest {
	__u32 user_id;
	__u32 mode;
};

/* Key: device index. The daemon creates the entry before it sets HELD; from then on only this program writes it. */
struct held {
	/* Time of the first packet that counts (CLOCK_MONOTONIC); 0: none yet. */
	__u64 wanted_ns;
	__u64 frames;
	__u64 bytes;
	__u64 dropped_frames;
};

/* Key: device index. Only the daemon writes this: the frames that it has taken from the ring buffer. */
struct taken {
	__u64 frames;
	__u64 bytes;
};

/* Key: user id. */
struct activity {
	__u64 packets;
	__u64 last_ns;
};

#define EVENT_COUNTS 1

struct event {
	__u32 user_id;
	__u32 ifindex;
	__u64 at_ns;
	/* Length of the frame that follows. 0: the frame was dropped, but the guest must wake. */
	__u32 length;
	__u32 gso_size;
	__u32 flags;
	__u32 unused;
	__u8 frame[];
};

#define HAS_IPV4 1
#define HAS_IPV6 2
#define HAS_PORTS 4

struct settings {
	__u32 held_frames_max;
	__u32 held_bytes_max;
	/* Packets with this mark under the mask do not count. A mask of 0 matches no packet. */
	__u32 ignored_mark;
	__u32 ignored_mark_mask;
	/* Bits of the maps of ignored sources and ports that have entries. */
	__u32 has;
	__u32 unused;
};

struct ipv4_source {
	__u32 prefix_length;
	__u8 address[4];
};

struct ipv6_source {
	__u32 prefix_length;
	__u8 address[16];
};

struct port {
	__u8 protocol;
	__u8 unused;
	/* Destination port in network byte order. */
	__be16 port;
};

#define PINNED_HASH(NAME, VALUE)                     \
	struct {                                     \
		__uint(type, BPF_MAP_TYPE_HASH);     \
		__uint(max_entries, GUESTS_MAX);     \
		__uint(map_flags, BPF_F_NO_PREALLOC); \
		__uint(pinning, LIBBPF_PIN_BY_NAME); \
		__type(key, __u32);                  \
		__type(value, VALUE);                \
	} NAME SEC(".maps")

#define PINNED_TRIE(NAME, KEY)                        \
	struct {                                      \
		__uint(type, BPF_MAP_TYPE_LPM_TRIE);  \
		__uint(max_entries, IGNORED_SOURCES_MAX); \
		__uint(map_flags, BPF_F_NO_PREALLOC); \
		__uint(pinning, LIBBPF_PIN_BY_NAME);  \
		__type(key, KEY);                     \
		__type(value, __u32);                 \
	} NAME SEC(".maps")

PINNED_HASH(guests, struct guest);
PINNED_HASH(held, struct held);
PINNED_HASH(taken, struct taken);
PINNED_HASH(activity_by_user_id, struct activity);
/*
 * Time at which the guest's idle clock was restarted. Only the daemon uses it; here it survives a restart of the
 * daemon.
 */
PINNED_HASH(restarted_by_user_id, __u64);
PINNED_TRIE(ignored_ipv4, struct ipv4_source);
PINNED_TRIE(ignored_ipv6, struct ipv6_source);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, IGNORED_PORTS_MAX);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, struct port);
	__type(value, __u32);
} ignored_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, EVENTS_BYTES);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} traffic_events SEC(".maps");

enum kind {
	/* Not unicast IP: neighbour discovery and the like. */
	OTHER,
	/* Unicast IP that needs no guest. */
	QUIET,
	COUNTS,
};

static __always_inline enum kind judge_port(struct __sk_buff *skb, __u32 at, __u8 protocol,
					    const struct settings *set)
{
	__be16 ports[2];

	if (!(set->has & HAS_PORTS))
		return COUNTS;
	if (bpf_skb_load_bytes(skb, at, ports, sizeof(ports)))
		return QUIET;
	struct port key = { .protocol = protocol, .port = ports[1] };
	return bpf_map_lookup_elem(&ignored_ports, &key) ? QUIET : COUNTS;
}

/* Judges the payload of an IP packet, which begins at an offset. An unknown payload counts. */
static __always_inline enum kind judge_payload(struct __sk_buff *skb, __u32 at, __u8 protocol,
					       const struct settings *set)
{
	__u8 byte;

	switch (protocol) {
	case IPPROTO_TCP:
		if (bpf_skb_load_bytes(skb, at + 13, &byte, 1))
			return QUIET;
		/* RST: the answer to a connection that is over. */
		if (byte & 0x04)
			return QUIET;
		return judge_port(skb, at, protocol, set);
	case IPPROTO_UDP:
		return judge_port(skb, at, protocol, set);
	case IPPROTO_ICMP:
		if (bpf_skb_load_bytes(skb, at, &byte, 1))
			return QUIET;
		/* Unreachable, quench, redirect, time exceeded, parameter problem (RFC 792). */
		if (byte == 3 || byte == 4 || byte == 5 || byte == 11 || byte == 12)
			return QUIET;
		return COUNTS;
	case IPPROTO_ICMPV6:
		if (bpf_skb_load_bytes(skb, at, &byte, 1))
			return QUIET;
		/* Errors have no high bit (RFC 4443, 2.1). 133 to 137 is neighbour discovery (RFC 4861). */
		if (byte < 128 || (byte >= 133 && byte <= 137))
			return QUIET;
		return COUNTS;
	default:
		return COUNTS;
	}
}

static __always_inline enum kind judge_ipv4(struct __sk_buff *skb, const struct settings *set)
{
	__u8 header[20];

	if (bpf_skb_load_bytes(skb, ETH_HLEN, header, sizeof(header)))
		return QUIET;
	/* 224.0.0.0 and up: multicast, reserved, and broadcast. */
	if (header[16] >= 224)
		return OTHER;
	if (set->has & HAS_IPV4) {
		struct ipv4_source key = { .prefix_length = 32 };
		__builtin_memcpy(key.address, header + 12, 4);
		if (bpf_map_lookup_elem(&ignored_ipv4, &key))
			return QUIET;
	}
	/* Only the first fragment has the beginning of the payload. */
	if ((header[6] & 0x1f) || header[7])
		return COUNTS;
	return judge_payload(skb, ETH_HLEN + (header[0] & 0x0f) * 4, header[9], set);
}

static __always_inline enum kind judge_ipv6(struct __sk_buff *skb, const struct settings *set)
{
	__u32 at = ETH_HLEN + 40;
	__u8 header[40], next[4];
	__u8 protocol;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, header, sizeof(header)))
		return QUIET;
	if (header[24] == 0xff)
		return OTHER;
	if (set->has & HAS_IPV6) {
		struct ipv6_source key = { .prefix_length = 128 };
		__builtin_memcpy(key.address, header + 8, 16);
		if (bpf_map_lookup_elem(&ignored_ipv6, &key))
			return QUIET;
	}
	protocol = header[6];
#pragma unroll
	for (int i = 0; i < IPV6_EXTENSIONS_MAX; i++) {
		if (protocol != IPPROTO_HOPOPTS && protocol != IPPROTO_ROUTING && protocol != IPPROTO_DSTOPTS &&
		    protocol != IPPROTO_FRAGMENT && protocol != IPPROTO_AH)
			return judge_payload(skb, at, protocol, set);
		if (bpf_skb_load_bytes(skb, at, next, sizeof(next)))
			return QUIET;
		if (protocol == IPPROTO_FRAGMENT) {
			if (next[2] || (next[3] & 0xf8))
				return COUNTS;
			at += 8;
		} else if (protocol == IPPROTO_AH) {
			at += (next[1] + 2) * 4;
		} else {
			at += (next[1] + 1) * 8;
		}
		protocol = next[0];
	}
	return COUNTS;
}

static __always_inline enum kind judge(struct __sk_buff *skb, const struct settings *set)
{
	enum kind kind;
	struct ethhdr eth;

	if (skb->vlan_present || bpf_skb_load_bytes(skb, 0, &eth, sizeof(eth)))
		return OTHER;
	/* The group bit: multicast and broadcast. */
	if (eth.h_dest[0] & 1)
		return OTHER;
	if (eth.h_proto == bpf_htons(ETH_P_IP))
		kind = judge_ipv4(skb, set);
	else if (eth.h_proto == bpf_htons(ETH_P_IPV6))
		kind = judge_ipv6(skb, set);
	else
		return OTHER;
	if (kind == COUNTS && set->ignored_mark_mask && (skb->mark & set->ignored_mark_mask) == set->ignored_mark)
		return QUIET;
	return kind;
}

static __always_inline void count(__u32 user_id, __u64 now)
{
	struct activity *known = bpf_map_lookup_elem(&activity_by_user_id, &user_id);

	if (!known) {
		struct activity first = {};
		bpf_map_update_elem(&activity_by_user_id, &user_id, &first, BPF_NOEXIST);
		known = bpf_map_lookup_elem(&activity_by_user_id, &user_id);
		if (!known)
			return;
	}
	__sync_fetch_and_add(&known->packets, 1);
	known->last_ns = now;
}

static __always_inline void describe(struct event *event, struct __sk_buff *skb, const struct guest *guest, __u64 now,
				     enum kind kind)
{
	event->user_id = guest->user_id;
	event->ifindex = skb->ifindex;
	event->at_ns = now;
	event->length = 0;
	event->gso_size = skb->gso_size;
	event->flags = kind == COUNTS ? EVENT_COUNTS : 0;
	event->unused = 0;
}

/*
 * The kernel reserves only constant sizes, so this uses the smallest of a few sizes that the frame fits in. Each is at
 * most twice the one before, so that the frames of one guest, whose own bytes are bounded, take half of the ring buffer
 * at most. Returns 1 if the frame is in the ring buffer. The compiler knows the length from an earlier check. It must
 * not leave out the check here: the verifier of Linux 6.1 no longer knows the bound at this point.
 *
 * Every submit and discard forces a wake-up of the daemon. Without that, the kernel wakes only a reader that has read
 * all earlier records, but the daemon leaves records in the ring buffer while they wait. A discard also needs it: until
 * the daemon skips it, it cannot read the records behind it.
 */
#define COPY(SIZE)                                                                                    \
	static __always_inline int copy_##SIZE(struct __sk_buff *skb, const struct guest *guest,       \
					       __u64 now, enum kind kind)                              \
	{                                                                                              \
		struct event *event = bpf_ringbuf_reserve(&traffic_events, sizeof(*event) + SIZE, 0);  \
		if (!event)                                                                            \
			return 0;                                                                      \
		describe(event, skb, guest, now, kind);                                                \
		__u64 length = skb->len;                                                               \
		asm volatile("" : "+r"(length));                                                       \
		if (length < ETH_HLEN || length > SIZE ||                                              \
		    bpf_skb_load_bytes(skb, 0, event->frame, length)) {                                \
			bpf_ringbuf_discard(event, BPF_RB_FORCE_WAKEUP);                               \
			return 0;                                                                      \
		}                                                                                      \
		event->length = length;                                                                \
		bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);                                        \
		return 1;                                                                              \
	}

COPY(256)
COPY(2048)
COPY(4096)
COPY(8192)
COPY(16384)
COPY(32768)
/* The longest IP packet with its Ethernet header. */
COPY(65568)

static __always_inline int copy(struct __sk_buff *skb, const struct guest *guest, __u64 now, enum kind kind)
{
	if (skb->len <= 256)
		return copy_256(skb, guest, now, kind);
	if (skb->len <= 2048)
		return copy_2048(skb, guest, now, kind);
	if (skb->len <= 4096)
		return copy_4096(skb, guest, now, kind);
	if (skb->len <= 8192)
		return copy_8192(skb, guest, now, kind);
	if (skb->len <= 16384)
		return copy_16384(skb, guest, now, kind);
	if (skb->len <= 32768)
		return copy_32768(skb, guest, now, kind);
	if (skb->len <= 65568)
		return copy_65568(skb, guest, now, kind);
	return 0;
}

/*
 * Counts the frame and returns whether it is within the bounds. CPUs do this at the same time, so each adds before it
 * compares.
 */
static __always_inline int reserve(struct held *held_counters, const struct taken *taken_counters, __u32 length,
				   const struct settings *set)
{
	__u64 frames = __sync_fetch_and_add(&held_counters->frames, 1) + 1;
	__u64 bytes = __sync_fetch_and_add(&held_counters->bytes, length) + length;

	return frames - taken_counters->frames <= set->held_frames_max &&
	       bytes - taken_counters->bytes <= set->held_bytes_max;
}

static __always_inline void drop(struct held *held_counters, __u32 length)
{
	__sync_fetch_and_add(&held_counters->frames, -1LL);
	__sync_fetch_and_add(&held_counters->bytes, -(__u64)length);
	__sync_fetch_and_add(&held_counters->dropped_frames, 1);
}

/* Sends an event without a frame: the guest must wake for a frame that could not be held. */
static __always_inline void wake_only(struct __sk_buff *skb, const struct guest *guest, __u64 now)
{
	struct event *event = bpf_ringbuf_reserve(&traffic_events, sizeof(*event), 0);

	if (!event)
		return;
	describe(event, skb, guest, now, COUNTS);
	bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);
}

static __always_inline int hold(struct __sk_buff *skb, const struct guest *guest, __u64 now, enum kind kind,
				const struct settings *set)
{
	__u32 ifindex = skb->ifindex, length = skb->len;
	struct held *held_counters = bpf_map_lookup_elem(&held, &ifindex);
	struct taken *taken_counters = bpf_map_lookup_elem(&taken, &ifindex);
	int first = 0;

	if (kind == OTHER || !held_counters || !taken_counters)
		return TC_ACT_SHOT;
	if (kind == COUNTS)
		first = __sync_val_compare_and_swap(&held_counters->wanted_ns, 0, now) == 0;
	else if (!held_counters->wanted_ns)
		return TC_ACT_SHOT;
	/* STOLEN, not SHOT: with SHOT the sender's socket would report a drop. */
	if (reserve(held_counters, taken_counters, length, set) && copy(skb, guest, now, kind))
		return TC_ACT_STOLEN;
	drop(held_counters, length);
	if (first)
		wake_only(skb, guest, now);
	return TC_ACT_SHOT;
}

/* Attached as a classifier in direct-action mode. TC_ACT_UNSPEC leaves the frame to other programs. */
SEC("tc")
int traffic(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex, only = 0;
	struct guest *guest = bpf_map_lookup_elem(&guests, &ifindex);
	struct settings *set = bpf_map_lookup_elem(&settings, &only);

	if (!guest || !set)
		return TC_ACT_UNSPEC;
	enum kind kind = judge(skb, set);
	__u64 now = bpf_ktime_get_ns();
	if (kind == COUNTS)
		count(guest->user_id, now);
	return guest->mode == HELD ? hold(skb, guest, now, kind, set) : TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Apache-2.0";
