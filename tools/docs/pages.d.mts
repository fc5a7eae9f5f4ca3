export const SECTIONS: readonly { text: string; pages: Record<string, { title: string; says: string }> }[]
