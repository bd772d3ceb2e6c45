import type { Entries } from './entry.ts'

/** Problems of the work on a VM, whatever part of the host it is about. */
export const work = {
  faults: {
    step_deadline: {
      retry: 'backoff',
      title: 'A step took longer than its deadline',
      meaning: 'A step took longer than its deadline and was abandoned.',
      remedy: 'The step is named; look at what it waits for.',
      example: 'network.ensure-tap took longer than 30 s and was stopped',
      writtenBy: ['src/reconcile/run-step.ts'],
    },
    not_converging: {
      retry: 'backoff',
      title: 'The steps succeed, but the host does not become as desired',
      meaning: 'The steps succeed, but the host does not become as desired: something else changes it back.',
      remedy: 'Find what else manages these objects and stop it.',
      example: 'done 16 times in a row, and still needed because there is no device vmt2100000000',
      writtenBy: ['src/reconcile/act.ts', 'src/core/plan/plan-network.ts'],
    },
    tool_missing: {
      retry: 'backoff',
      title: 'A program that the host needs is not installed',
      remedy: 'Install it; the error names it.',
      example: 'running nft: start nft: ENOENT',
      writtenBy: ['src/host/exec/exec.ts'],
      quotes: ['start nft: ENOENT'],
    },
    bug: {
      retry: 'on-change',
      title: 'A bug in vmhostd stopped the work on this VM, which is left as it is',
      meaning:
        'A bug in vmhostd stopped the work on this VM. It is left as it is, running if it ran, and tried again slowly.',
      remedy: 'Report it with the log lines of the VM.',
      example: 'unhandled case: "resumed"',
      writtenBy: ['src/lib/assert.ts', 'src/reconcile/pass.ts'],
    },
  },
} as const satisfies Entries
