import { limits } from '../../config/limits.ts'
import { DAY_MS } from '../../lib/time-units.ts'
import type { Finding } from './finding.ts'
import type { HostFacts } from './host-facts.ts'

/** Judges whether each listener can use its files. */
export const judgeTlsFiles = ({ tlsFiles }: HostFacts): readonly Finding[] =>
  tlsFiles.map(({ listener, files }) =>
    files.known
      ? {
          check: `certificates ${listener}`,
          level: 'ok',
          found: 'certificate and key fit together, and there is an authority',
        }
      : {
          check: `certificates ${listener}`,
          level: 'must',
          found: files.because,
          remedy:
            'put the right files there (a backup has the authority), or move what is wrong away, a certificate with its key, and run vmhostd setup, which makes what is missing (see certificates.md)',
        },
  )

/** Judges whether the private keys of this host are kept from its other users. */
export function judgeKeys({ readableKeys }: HostFacts): Finding {
  const check = 'private keys'
  if (!readableKeys.known)
    return { check, level: 'should', found: readableKeys.because, remedy: 'run this as root' }
  const paths = readableKeys.value.join(' ')
  if (paths === '') return { check, level: 'ok', found: 'kept from other users of this host' }
  return {
    check,
    level: 'should',
    found: `every user of this host can read ${paths}`,
    remedy: `chmod o= ${paths}, and replace what others may have read (see certificates.md)`,
  }
}

/** Judges whether the further authorities for object stores can be read, without which the daemon does not start. */
export function judgeExtraAuthorities({ extraAuthorities }: HostFacts): readonly Finding[] {
  if (extraAuthorities === undefined) return []
  const check = 'certificates object store'
  return extraAuthorities.known
    ? [{ check, level: 'ok', found: `authorities besides those of the system: ${extraAuthorities.value}` }]
    : [
        {
          check,
          level: 'must',
          found: extraAuthorities.because,
          remedy: 'put the file there, or remove the key',
        },
      ]
}

/** Judges whether other hosts take this one for the node that it is. */
export function judgeNode({ node }: HostFacts): readonly Finding[] {
  if (node === undefined) return []
  const check = 'node'
  if (node.known) return [{ check, level: 'ok', found: `other hosts know this one as ${node.value}` }]
  const another =
    'remove it with its key, and run vmhostd setup, or have the authority of nodes sign another one ("Certificates of nodes" in certificates.md)'
  // The certificate may be the right one, and nothing else here shows which of the two files is not.
  const remedy =
    node.fault === 'authority'
      ? `put the authority that signed it there; only if the one that is there is right for all hosts, ${another}`
      : another
  return [{ check, level: 'should', found: `no VM moves from or to this host: ${node.because}`, remedy }]
}

const CLOCK = 'set the clock of this host if it is wrong'

/** Judges when each certificate begins and ends. */
export const judgeCertificates = ({ certificates, nowMs }: HostFacts): readonly Finding[] =>
  certificates.map(({ name, path, isAuthority, notBeforeMs, notAfterMs }) => {
    const check = `certificate ${name}`
    const daysLeft = Math.floor((notAfterMs - nowMs) / DAY_MS)
    const replace = `replace the authority in ${path} ("Replace an authority without an outage" in certificates.md)`
    const remedy = isAuthority ? replace : `renew ${path} (see certificates.md)`
    if (nowMs < notBeforeMs)
      return {
        check,
        level: 'must',
        found: `not valid before ${new Date(notBeforeMs).toISOString()}`,
        remedy: `${CLOCK}, or ${isAuthority ? replace : 'run vmhostd certificate renew (see certificates.md)'}`,
      }
    if (daysLeft < 0)
      return {
        check,
        level: 'must',
        found: `expired ${new Date(notAfterMs).toISOString()}`,
        remedy: `${CLOCK}, or ${remedy}`,
      }
    if (daysLeft <= limits.certificateWarningDays)
      return { check, level: 'should', found: `expires in ${daysLeft} days`, remedy }
    return { check, level: 'ok', found: `valid for ${daysLeft} days` }
  })

/** Judges whether each listener can use its revocation lists, and whether newer ones are due. */
export const judgeRevocations = ({ revocations, nowMs }: HostFacts): readonly Finding[] =>
  revocations.map(({ listener, path, lists, withoutList }): Finding => {
    const check = `revocations ${listener}`
    if (!lists.known)
      return {
        check,
        level: 'must',
        found: `${path} cannot be used: ${lists.because}`,
        remedy:
          'put whole lists there, or take revocation_file out of the configuration ("Revoke a certificate")',
      }
    const old = lists.value.find(({ nextUpdateMs = Infinity }) => nextUpdateMs <= nowMs)
    if (old !== undefined)
      return {
        check,
        level: 'should',
        found: `a newer list of ${old.issuer} was due ${new Date(old.nextUpdateMs ?? nowMs).toISOString()}`,
        remedy: `replace ${path}: later revocations are not known`,
      }
    if (withoutList.length > 0)
      return {
        check,
        level: 'should',
        found: `no list of ${withoutList.join('; ')}: all that it signed is let in`,
        remedy: `put a list of each trusted authority into ${path}, also one that revokes nothing`,
      }
    const revoked = lists.value.reduce((sum, list) => sum + list.revoked, 0)
    return { check, level: 'ok', found: `certificates revoked: ${revoked}` }
  })
