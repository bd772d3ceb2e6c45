import { limits } from '../../config/limits.ts'
import { unreachable } from '../../lib/assert.ts'
import { blockedBy } from './step.ts'
import type { Facet, Facts } from './facet.ts'

/** Gives a VM its memory back before its unit starts, or waits in the queue for it. */
export function ensureMemory(facts: Facts): Facet {
  const memory = facts.memory()
  switch (memory.kind) {
    case 'held':
      return []
    case 'free':
      return [
        {
          kind: 'memory.ensure-held',
          because: 'the VM lent its memory, and needs it back',
        },
      ]
    case 'short':
      return {
        outcome: 'wait',
        for: 'memory',
        recheckMs: limits.memoryRecheckMs,
        deadlineMs: limits.memoryWaitMs,
        queue: { place: memory.place, missingMib: memory.missingMib },
      }
    case 'blocked':
      return blockedBy('memory.inspect', memory.because)
    default:
      return unreachable(memory)
  }
}
