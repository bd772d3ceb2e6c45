import type { Entries } from './entry.ts'

/** Problems of sleep and wake. */
export const sleep = {
  rejections: {
    sleep_needs_network: {
      status: 422,
      title: 'Without an address nothing could wake the VM',
      meaning: 'The VM would have an idle timeout and no address: no packet could wake it.',
      remedy: 'Ask for `sleep_after_idle_seconds: 0`, or give the VM an address.',
      example:
        'sleep_after_idle_seconds is 60, and without an address no packet could wake the VM: ask for 0, or give the VM an address',
      writtenBy: ['src/commands/vm/check-network.ts'],
      advice: ['--ipv4 or --ipv6 gives it an address; --sleep-after 0 lets it run on'],
    },
  },
  faults: {
    save_failed: {
      retry: 'backoff',
      title: 'The guest could not be saved, and keeps running',
      meaning:
        'The guest was not saved: the monitor refused, or the pool did not take the file. It goes on as before, with every packet that came, and is tried again less and less often; the error stays until a save succeeds or desired changes.',
      remedy:
        'The error names the cause. If the pool has no room, make some. If an older vmhostd or QEMU, or a newer QEMU than the installed one, started the guest, stop the VM and start it once. To keep a VM awake, set `sleep_after_idle_seconds: 0`.',
      example: 'saving VM web-1: the guest is running',
      writtenBy: ['src/host/qemu/qemu-monitor.ts', 'src/host/monitors/monitor-error.ts'],
    },
    sleep_unsupported: {
      retry: 'backoff',
      title: 'The monitor cannot save guests, so the VM never sleeps',
      meaning:
        'The VM has an idle timeout, and the monitor that is installed cannot save a guest: it runs on. Shown among `partial_faults`. On a host that is drained, it is the fault of each guest that cannot be saved.',
      remedy:
        'Install QEMU 8.2 or later, then stop the VM and start it, once; or set `sleep_after_idle_seconds` to 0. Drain a host with such guests with `drain.guests` as `stop`.',
      example: 'the VM should sleep when it is idle and cannot: the installed monitor cannot save a guest',
      writtenBy: ['src/core/status/partial-faults.ts'],
    },
    restore_failed: {
      retry: 'backoff',
      title: 'The monitor could not restore the saved guest',
      meaning:
        'The monitor did not take the saved guest. Nothing of it is lost: it stays in the pool, and is tried again.',
      remedy:
        'See the journal of `vmhost-<id>`. If it can never be restored: `PUT …/power` `stopped` discards the saved state, and `running` boots.',
      example:
        'restoring VM web-1: its monitor could not read it; `journalctl --unit=vmhost-web-1.service` has its reason: control connection lost: closed',
      writtenBy: ['src/host/qemu/qemu-monitor.ts', 'src/host/monitors/monitor-error.ts'],
    },
    saved_state_corrupt: {
      retry: 'backoff',
      title: 'The saved state is damaged',
      meaning:
        'The saved state is damaged: a part is missing, or its checksum is not the one it was saved with. It is kept, and no guest is made of it.',
      remedy:
        'See the kernel log for disk errors. Put the file back from a backup of the pool; or `PUT …/power` `stopped` discards it, and `running` boots.',
      example:
        'the saved state is not restored: its memory has 83886080 bytes and was saved with 88080384; PUT power stopped removes it, and the next start is a boot',
      writtenBy: [
        'src/core/saved/saved-metadata.ts',
        'src/core/saved/judge-saved-state.ts',
        'src/core/plan/plan-wake.ts',
      ],
    },
    saved_state_foreign: {
      retry: 'backoff',
      title: 'The saved state is of another VM, disk or monitor',
      meaning:
        'The saved state does not fit: it is of another VM, its disk was written or replaced since, another monitor or accelerator wrote it, or the VM has other memory or vCPUs now. It is kept, and no guest is made of it.',
      remedy:
        'Bring back what `error` names: the disk, or the configuration. Or `PUT …/power` `stopped` discards it, and `running` boots.',
      example:
        'the saved state is not restored: the disk was written after the guest was saved; PUT power stopped removes it, and the next start is a boot',
      writtenBy: [
        'src/core/saved/judge-saved-state.ts',
        'src/core/saved/saved-metadata.ts',
        'src/core/plan/plan-wake.ts',
      ],
    },
    saved_state_too_new: {
      retry: 'backoff',
      title: 'The saved state was written by newer software',
      meaning:
        'The saved state was written by a newer version of vmhostd or of its monitor, which was replaced by an older one. It is kept.',
      remedy:
        'Install that version again and let the VM wake. Or `PUT …/power` `stopped` discards it, and `running` boots.',
      example:
        'the saved state is not restored: it was written by qemu-system-x86_64 10.1.0 with kvm, and here is 10.0.13; PUT power stopped removes it, and the next start is a boot',
      writtenBy: [
        'src/core/saved/judge-saved-state.ts',
        'src/core/saved/saved-metadata.ts',
        'src/core/plan/plan-wake.ts',
      ],
    },
  },
} as const satisfies Entries
