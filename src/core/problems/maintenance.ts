import type { Entries } from './entry.ts'

/** Problems of a host that is taken out of service. */
export const maintenance = {
  rejections: {
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
} as const satisfies Entries
