/** Returns the JSON pointer (RFC 6901) to the member `name` of what `parent` points to. */
export const memberPointer = (parent: string, name: string): string =>
  `${parent}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`

/** Returns the name that stands for a part of a JSON pointer. */
export const unescapedName = (part: string): string => part.replaceAll('~1', '/').replaceAll('~0', '~')
