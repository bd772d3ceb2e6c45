import type { MonitorState } from '../plan/world.ts'

/**
 * What a status of QMP's `query-status` means (QEMU QMP Reference Manual, RunState). A guest that suspended itself
 * still runs: only it, or whoever wakes it, ends that. A status we have no word for is one the guest cannot leave alone.
 */
export function monitorStateOf(status: string): MonitorState {
  switch (status) {
    case 'running':
    case 'suspended':
      return { kind: 'running' }
    case 'paused':
    case 'prelaunch':
      return { kind: 'paused' }
    default:
      return { kind: 'broken', status }
  }
}
