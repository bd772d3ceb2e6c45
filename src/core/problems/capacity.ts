import type { Entries } from './entry.ts'

/** Problems of what the host can promise, and of a host that takes nothing more. */
export const capacity = {
  rejections: {
    insufficient_capacity: {
      status: 409,
      title: 'The host cannot hold the increase',
      meaning:
        'The host cannot hold the memory or the disk that the request needs; this includes the memory of the monitor and the room in which a guest is saved. `detail` names what is short and by how much, and says if there is room when VMs under deletion are gone.',
      remedy:
        'Ask again soon if VMs under deletion make room. Otherwise ask for less, delete or shrink other VMs, or place it on another host. See `capacity` in `GET /v1/sync`.',
      example:
        'the host is short of memory by 640 MiB (1152 MiB more needed, 128 of them for its monitor, 512 MiB free of 8192 MiB)',
      writtenBy: ['src/commands/capacity/admit.ts', 'src/core/capacity/ledger.ts'],
      advice: ['vmhostctl sync shows what the host has left'],
    },
    user_ids_exhausted: {
      status: 409,
      title: 'The configured user id range is used up',
      meaning:
        'Every numeric user of the configured range belongs to a VM. `detail` says if VMs under deletion make room.',
      remedy:
        'Ask again soon if VMs under deletion make room. Otherwise delete VMs, or raise `vms.user_id_count` and restart the daemon.',
      example:
        'every user id of the configured range belongs to a VM: delete VMs, or raise vms.user_id_count',
      writtenBy: ['src/commands/capacity/admit.ts'],
    },
    host_cordoned: {
      status: 409,
      title: 'The host takes nothing more: it is cordoned',
      meaning:
        'An operator has taken the host out of service (`GET /v1/maintenance`). It takes no new VM, no VM from another host, and no growth of memory, CPU or disk. Its VMs live on.',
      remedy:
        'Place the VM on another host, or wait until the maintenance has ended: `PUT /v1/maintenance` with `{"state": "schedulable"}`.',
      example:
        'this host is cordoned (kernel-6.12), and takes no VM: place web-1 on another host, or end the maintenance with PUT /v1/maintenance {"state": "schedulable"}',
      writtenBy: ['src/commands/maintenance/refuse-cordoned.ts'],
      advice: ['vmhostctl host status shows since when and why; vmhostctl host uncordon ends it'],
    },
  },
  faults: {
    capacity_unknown: {
      retry: 'backoff',
      title: 'The host could not be inspected, so nothing can be promised',
      meaning: 'The host could not be inspected, or not recently enough, so nothing is promised.',
      remedy: "See the daemon's log; it looks again every few seconds.",
      example: 'the last look at the host is 20 s old',
      writtenBy: ['src/owners/capacity/host-inspector.ts'],
      advice: ['vmhostctl sync shows what the host has left'],
    },
    memory_exceeds_host: {
      retry: 'backoff',
      title: 'The VM needs more memory than the VMs of this host may have',
      meaning:
        'The VM lent its memory while it slept, and the host now has less for all VMs together than this VM needs: its memory or the reserve was changed.',
      remedy:
        'Give the host more memory for VMs (`capacity.memory_reserve_mib`), stop the VM and make it smaller, or move it to another host.',
      example: 'it needs 1152 MiB of memory, and all VMs of this host together may have 1024 MiB',
      writtenBy: ['src/core/capacity/memory-standing.ts'],
      advice: ['vmhostctl sync shows what the host has left'],
    },
    no_memory_free: {
      retry: 'soon',
      title: 'Another VM took the memory that the VM needs',
      meaning:
        'The VM lent its memory while it slept. When it was about to have it back, another VM was promised that memory.',
      remedy: 'Nothing: the VM waits in the queue again. `observed.memory_queue` shows its place.',
      example: 'another VM took the memory that web-1 needs',
      writtenBy: ['src/reconcile/steps/steps.ts'],
    },
  },
} as const satisfies Entries
