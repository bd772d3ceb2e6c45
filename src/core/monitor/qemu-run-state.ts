import type { MonitorDisk, MonitorState } from '../world/world.ts'

/**
 * Returns the meaning of a status of QMP's `query-status` (QEMU QMP Reference Manual, RunState). A guest that suspended
 * itself still runs: only the guest, or a wake-up event, ends that. A guest whose disk failed resumes where it stopped,
 * and its request is repeated. A guest that is being saved, or was saved, stays paused. An unknown status counts as one
 * that the guest cannot leave by itself.
 */
export function monitorStateOf(status: string, disk: MonitorDisk): MonitorState {
  switch (status) {
    case 'running':
    case 'suspended':
      return { kind: 'running', disk }
    case 'paused':
    case 'prelaunch':
    case 'finish-migrate':
    case 'postmigrate':
    case 'save-vm':
      return { kind: 'paused', disk }
    case 'inmigrate':
    case 'restore-vm':
      return { kind: 'restoring' }
    case 'io-error':
      return { kind: 'stalled', status, disk }
    default:
      return { kind: 'broken', status }
  }
}
