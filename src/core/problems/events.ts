import type { Entries } from './entry.ts'

/** Problems of those who follow what happens on the host. */
export const events = {
  rejections: {
    event_readers_full: {
      status: 429,
      retryAfterSeconds: 5,
      title: 'Too many event streams are open',
      meaning:
        'Sixty-four streams of `GET /v1/events` are open already, sixteen by clients with this name, or forty-eight by clients that are not controllers.',
      remedy: 'Close one, or try again after `Retry-After` seconds. A program needs one stream for all VMs.',
      example: '64 event streams are open already',
      writtenBy: ['src/api/controller/event-readers.ts', 'src/config/event-limits.ts'],
      advice: ['close another event stream first'],
    },
    changes_not_kept: {
      status: 410,
      title: 'The changes since that revision are no longer known',
      meaning:
        'Deletions since the revision of `changed_after` are not kept any more, or the revision is not one of this host, or it is of progress that was lost with the daemon.',
      remedy: 'List all VMs, and continue with the `revision` of that answer.',
      example:
        'what changed since revision 1893456000000012 is not known any more: list all VMs, and go on with the revision of that answer',
      writtenBy: ['src/api/controller/routes/changed-vms.ts'],
    },
  },
} as const satisfies Entries
