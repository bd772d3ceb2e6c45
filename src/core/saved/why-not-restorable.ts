import { monitorMismatch } from './judge-saved-state.ts'
import type { Processor } from '../monitor/processor.ts'
import type { SavingMonitor } from '../world/saved-state.ts'

/** A program that runs a guest, or would run it, and the processor that it gives the guest. */
export type GuestPlatform = { readonly monitor: SavingMonitor; readonly processor: Processor }

/** How many missing features a sentence names. */
const NAMED_MAX = 4

/**
 * Returns why this host could not restore the memory of a guest that another host has; undefined if nothing is known
 * against it.
 */
export function whyNotRestorable(
  monitor: SavingMonitor,
  processor: Processor,
  here: GuestPlatform,
): string | undefined {
  const mismatch = monitorMismatch(monitor, here.monitor)
  if (mismatch !== undefined) return `its monitor is ${mismatch.words}`
  if (processor.vendor !== here.processor.vendor)
    return `its processor is of vendor ${processor.vendor}, and here is ${here.processor.vendor}`
  const present = new Set(here.processor.features)
  const missing = processor.features.filter((feature) => !present.has(feature))
  if (missing.length === 0) return undefined
  return `its processor has features that this one lacks: ${listed(missing)}`
}

function listed(features: readonly string[]): string {
  const named = features.slice(0, NAMED_MAX).join(', ')
  return features.length > NAMED_MAX ? `${named} and ${features.length - NAMED_MAX} more` : named
}
