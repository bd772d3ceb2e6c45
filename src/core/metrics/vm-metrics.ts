import { counter, gauge, perVm } from './metric.ts'

const labels = ['vm'] as const
const one = { labels, bound: perVm(1) } as const

/** Metrics of each VM on record. */
export const vmMetrics = {
  vmState: gauge(
    'vmhostd_vm_state',
    'The observed state of a VM. Only the present state has a series, with the value 1.',
    { labels: ['vm', 'state'], bound: perVm(1) },
  ),
  vmMonitor: gauge('vmhostd_vm_info', 'The monitor of a VM, with the value 1.', {
    labels: ['vm', 'monitor'],
    bound: perVm(1),
  }),
  vmCpus: gauge('vmhostd_vm_cpus', 'CPU that a VM may use, in CPUs.', one),
  vmMemory: gauge('vmhostd_vm_memory_size_bytes', 'Memory of a guest, as it is desired.', one),
  vmDisk: gauge('vmhostd_vm_disk_size_bytes', 'Size of the disk of a VM that was seen last.', one),
  vmStarted: gauge('vmhostd_vm_start_time_seconds', 'When the unit of a running VM was started.', one),
  vmFaultSince: gauge(
    'vmhostd_vm_fault_since_timestamp_seconds',
    'Since when a VM makes no progress, and the code of the fault. Absent if a VM has no fault.',
    { labels: ['vm', 'code'], bound: perVm(1) },
  ),
  vmRestarts: counter(
    'vmhostd_vm_restarts_total',
    'Starts of a VM that followed an end of its guest by itself, since its creation.',
    one,
  ),
  vmWakes: counter(
    'vmhostd_vm_wakes_total',
    'Wakes of a VM that ended, since it was created here or came to this host.',
    one,
  ),
  vmCpuTime: counter(
    'vmhostd_vm_cpu_seconds_total',
    "CPU time of the processes of a VM's unit, guest and monitor together, since the unit was started.",
    one,
  ),
  vmResident: gauge(
    'vmhostd_vm_resident_memory_bytes',
    "Memory that the processes of a VM's unit have on the host. anonymous: the touched part of the guest's memory and the " +
      "monitor's own. file: the monitor's program and libraries, and what it maps of a saved state.",
    { labels: ['vm', 'kind'], bound: perVm(2) },
  ),
  vmReceivedBytes: counter(
    'vmhostd_vm_network_receive_bytes_total',
    'Bytes that came to a guest since its network device was made.',
    one,
  ),
  vmReceivedPackets: counter(
    'vmhostd_vm_network_receive_packets_total',
    'Packets that came to a guest since its network device was made.',
    one,
  ),
  vmTransmittedBytes: counter(
    'vmhostd_vm_network_transmit_bytes_total',
    'Bytes that a guest sent since its network device was made.',
    one,
  ),
  vmTransmittedPackets: counter(
    'vmhostd_vm_network_transmit_packets_total',
    'Packets that a guest sent since its network device was made.',
    one,
  ),
  vmReceiveDrops: counter(
    'vmhostd_vm_network_receive_drop_packets_total',
    'Packets to a guest that were dropped. limit: above its bandwidth limit, since that was set. not_taken: the guest did not take them.',
    { labels: ['vm', 'reason'], bound: perVm(2) },
  ),
  vmTransmitDrops: counter(
    'vmhostd_vm_network_transmit_drop_packets_total',
    'Packets of a guest above its bandwidth limit.',
    one,
  ),
  vmFirewallDrops: counter(
    'vmhostd_vm_firewall_drop_packets_total',
    'Packets that the firewall dropped. spoofed: from the guest, with a foreign address. inbound: to the guest, and not allowed.',
    { labels: ['vm', 'reason'], bound: perVm(2) },
  ),
  vmReadBytes: counter(
    'vmhostd_vm_disk_read_bytes_total',
    'Bytes that a guest read from its disk since its monitor started.',
    one,
  ),
  vmReads: counter(
    'vmhostd_vm_disk_reads_total',
    'Reads of a guest from its disk since its monitor started.',
    one,
  ),
  vmWrittenBytes: counter(
    'vmhostd_vm_disk_written_bytes_total',
    'Bytes that a guest wrote to its disk since its monitor started.',
    one,
  ),
  vmWrites: counter(
    'vmhostd_vm_disk_writes_total',
    'Writes of a guest to its disk since its monitor started.',
    one,
  ),
} as const
