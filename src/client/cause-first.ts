/** A digest; its first characters are enough to identify it. */
const DIGEST = /\b([0-9a-f]{12})[0-9a-f]{52}\b/g

/** The step that an error of the daemon begins with, e.g. `image.ensure-fetched`. */
const STEP = /^([a-z]+\.[a-z-]+): (.+)$/

const ERRNO = /^E[A-Z0-9]+$/

/**
 * Reorders an error of the daemon: what went wrong, then what was being done, and the step last. The daemon writes
 * `step: what it did: with what: cause`, several of them joined by `; `.
 */
export function causeFirst(error: string): string {
  const text = error.replaceAll(DIGEST, '$1…')
  return text
    .split(/; (?=[a-z]+\.[a-z-]+: )/)
    .map(turned)
    .join('; ')
}

function turned(one: string): string {
  const [, step, message = one] = STEP.exec(one) ?? []
  const links = message.split(': ')
  // `ENOSPC: no space left on device` is one cause, although it has a colon.
  const causeAt = ERRNO.test(links.at(-2) ?? '') ? -2 : -1
  const cause = links.slice(causeAt).join(': ')
  const doing = links.slice(0, causeAt).join(': ')
  return [
    cause,
    ...(doing === '' ? [] : [` (${doing})`]),
    ...(step === undefined ? [] : [`, in ${step}`]),
  ].join('')
}

type Attempt = { readonly attempt: number; readonly next_attempt_at?: string | undefined }

/** Says when the daemon tries again what failed, or that it does so now; undefined if it does not. */
export function attemptWords({ attempt, next_attempt_at: next }: Attempt, nowMs: number): string | undefined {
  if (next === undefined) return undefined
  const seconds = Math.ceil((Date.parse(next) - nowMs) / 1000)
  return `attempt ${attempt}, ${seconds > 0 ? `next in ${seconds} s` : 'the next is under way'}`
}
