import type { Entries } from './entry.ts'

/** Problems of the network: addresses, taps, the firewall and the traffic of guests. */
export const network = {
  rejections: {
    address_in_use: {
      status: 409,
      title: 'The address is taken on this host',
      meaning:
        "Another VM on this host has the IPv4 or IPv6 address, or it is the host's own: one of its addresses, broadcast addresses, routers or resolvers. Or a prefix overlaps one of these, or the prefix of another VM.",
      remedy: 'Choose another address or prefix, or delete the VM that has it.',
      example: '192.0.2.10 belongs to the VM web-2: choose another address',
      writtenBy: ['src/commands/vm/check-network.ts'],
    },
    address_not_allowed: {
      status: 422,
      title: 'The address is outside the ranges of this host',
      meaning: 'The address or the prefix is not in `network.guest_ranges` of this host.',
      remedy: 'Choose an address in one of the ranges that `detail` names.',
      example: '203.0.113.7 is not in 192.0.2.0/24, the ranges for guests on this host',
      writtenBy: ['src/commands/vm/check-network.ts'],
    },
  },
  faults: {
    monitor_detached: {
      retry: 'backoff',
      title: 'The monitor has lost its network device',
      meaning:
        'The monitor has lost its network device: something removed the tap of a running guest, or the monitor changed its user, group or hardware address, and the tap was made again.',
      remedy:
        'Nothing: the device is made again and given back. Find out who removed it. The log says why it was made again.',
      example: 'the guest runs, but no monitor holds vmt2100000000',
      writtenBy: ['src/core/status/partial-faults.ts'],
    },
    tap_name_taken: {
      retry: 'backoff',
      title: 'The network device name belongs to another device',
      meaning:
        "A device that vmhostd did not make has the name of the VM's network device. It is left alone.",
      remedy: 'Rename or remove that device.',
      example: 'setting up tap vmt2100000000 of VM web-1: it is a tap without the mark of vmhostd',
      writtenBy: ['src/host/tap/routed-taps.ts'],
    },
    network_failed: {
      retry: 'backoff',
      title: 'A network operation failed',
      meaning:
        'A device, an address or a route could not be read or set. For an address or a prefix of a guest, the host may have a route to the same already.',
      remedy: 'The error names the device or the route, and the cause.',
      example: 'listing taps: netlink: list tun links: ENOBUFS',
      writtenBy: [
        'src/host/tap/routed-taps.ts',
        'src/host/tap/other-routes.ts',
        'src/host/netlink/netlink-socket.ts',
        'src/host/netlink/route-codec.ts',
        'src/host/ffi/errno-error.ts',
      ],
    },
    firewall_failed: {
      retry: 'backoff',
      title: 'nftables refused the ruleset',
      remedy: 'The error quotes it; the kernel may lack a module.',
      example: 'counting the packets dropped for vmt2100000000: the device has no rule',
      writtenBy: ['src/host/nftables/nft-firewall.ts'],
    },
    traffic_failed: {
      retry: 'backoff',
      title: 'The traffic of the VM could not be watched or held',
      meaning:
        'The traffic of the VM could not be watched, held or delivered: its program is not on the tap, or its maps are gone. The VM does not sleep meanwhile, so one that should does not reach its generation; one that sleeps is not woken by packets. With `sleep_after_idle_seconds: 0` it is only a partial fault.',
      remedy: 'The error names the call and the cause. `vmhostctl vm start VM` wakes a sleeper.',
      example: 'holding the frames of vmt2100000000: bpf_map_update_elem: ENOSPC',
      writtenBy: ['src/host/ebpf/tap-traffic.ts', 'src/host/ebpf/libbpf.ts', 'src/host/ffi/errno-error.ts'],
    },
  },
} as const satisfies Entries
