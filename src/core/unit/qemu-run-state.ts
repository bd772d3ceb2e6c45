import type { MonitorDisk, MonitorState } from '../plan/world.ts'

/**
 * What a status of QMP's `query-status` means (QEMU QMP Reference Manual, RunState). A guest that suspended itself
 * still runs: only it, or whoever wakes it, ends that. One whose disk failed goes on where it stood, and its request is
 * made again. One that is or was saved stands still where it stood. A status we have no word for is one the guest cannot
 * leave alone.
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
