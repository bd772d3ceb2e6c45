import { guestChains, sameChains } from './guest-rule.ts'
import {
  chainText,
  CONNECTION_SETS,
  DROP_SETS,
  element,
  GUEST_SETS,
  mapElement,
  RULE_MAP_NAMES,
} from './ruleset.ts'
import type { GuestRule } from '../world/network-state.ts'

/** Rules that go out of force and rules that come into force; a guest with one in each is changed. */
export type RulesetChange = { readonly gone: readonly GuestRule[]; readonly come: readonly GuestRule[] }

/**
 * Returns the text for `nft -f` that changes the rules of some guests, in one transaction, in a table that is otherwise
 * as it must be. Unchanged parts are not named. The counters of a changed guest continue; those of a guest that is only
 * gone are removed.
 */
export function compileChange({ gone, come }: RulesetChange): string {
  const [before, after] = [byDevice(gone), byDevice(come)]
  // A guest whose chains do not change keeps them.
  const left = gone.filter((rule) => !keepsChains(rule, after.get(rule.device)))
  const entered = come.filter((rule) => !keepsChains(rule, before.get(rule.device)))
  const sets = Object.keys(GUEST_SETS).map((name) => {
    const inSet = (rules: readonly GuestRule[]) => new Set(rules.flatMap((rule) => element(name, rule)))
    return { name, old: inSet(gone), now: inSet(come) }
  })
  return [
    ...sets.map(({ name, old, now }) => elementText('delete', name, [...old.difference(now)])),
    ...mapTexts('delete', left),
    ...left.flatMap((rule) =>
      guestChains(rule)
        .toReversed()
        .map(({ name }) => `delete chain inet vmhostd ${name}\n`),
    ),
    ...gone.filter(({ device }) => !after.has(device)).map(forgetCounts),
    ...sets.map(({ name, old, now }) => elementText('add', name, [...now.difference(old)])),
    addChains(entered),
    ...mapTexts('add', entered),
  ].join('')
}

const byDevice = (rules: readonly GuestRule[]): ReadonlyMap<string, GuestRule> =>
  new Map(rules.map((rule) => [rule.device, rule]))

const keepsChains = (rule: GuestRule, other: GuestRule | undefined): boolean =>
  other !== undefined && sameChains(rule, other)

const mapTexts = (verb: 'add' | 'delete', rules: readonly GuestRule[]): readonly string[] =>
  RULE_MAP_NAMES.map((map) =>
    elementText(
      verb,
      map,
      rules.flatMap((rule) => mapElement(map, rule)),
    ),
  )

const elementText = (verb: 'add' | 'delete', set: string, elements: readonly string[]): string =>
  elements.length === 0 ? '' : `${verb} element inet vmhostd ${set} { ${elements.join(', ')} }\n`

/** Only an existing element can be deleted, and adding an existing one changes nothing. */
const forgetCounts = ({ device }: GuestRule): string =>
  [...DROP_SETS, ...CONNECTION_SETS]
    .flatMap((set) => (['add', 'delete'] as const).map((verb) => elementText(verb, set, [`"${device}"`])))
    .join('')

function addChains(guests: readonly GuestRule[]): string {
  const chains = guests.flatMap(guestChains)
  return chains.length === 0 ? '' : `table inet vmhostd {\n${chains.map(chainText).join('')}}\n`
}
