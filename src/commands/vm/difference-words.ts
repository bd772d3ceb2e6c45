/** Members whose own members are compared one by one. */
const OPEN: ReadonlySet<string> = new Set(['compute', 'disk', 'network', 'metadata'])

/**
 * Names the members in which two requests to create a VM differ, as the API calls them and without their values: user data
 * and keys are secret. Both are in canonical JSON, as they are stored.
 */
export function differenceWords(one: string, other: string): string {
  const [a, b] = [membersOf(one), membersOf(other)]
  const names = new Set([...a.keys(), ...b.keys()])
  return [...names].filter((name) => a.get(name) !== b.get(name)).join(', ')
}

function membersOf(request: string): ReadonlyMap<string, string> {
  const { images, ...rest } = JSON.parse(request) as Readonly<Record<string, unknown>>
  const members = Object.entries(rest).flatMap(([name, value]) =>
    OPEN.has(name) && typeof value === 'object' && value !== null
      ? Object.entries(value).map(([member, inner]): [string, unknown] => [`${name}.${member}`, inner])
      : [[name, value] as [string, unknown]],
  )
  const roles = (images as readonly { readonly role: string }[]).map((image): [string, unknown] => [
    `image.${image.role}`,
    image,
  ])
  return new Map([...members, ...roles].map(([name, value]) => [snakeCase(name), JSON.stringify(value)]))
}

/** Returns the name as the API has it: labels and protection are members of the request itself. */
const snakeCase = (name: string): string =>
  name.replace(/^metadata\./, '').replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
