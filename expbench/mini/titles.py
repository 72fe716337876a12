"""Titles of the mini suite's films and games, all invented, shelf by shelf.

Neighbouring shelves go together: who likes one tends to like the next. A few games carry HTML
entities and a few titles stand twice, as in the public data, so that a loader has to take care.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Shelf:
    """One genre: what has sequels and what stands alone."""

    genre: str
    series: tuple[str, ...]
    """Titles of the first parts."""
    singles: tuple[str, ...]


def _shelf(genre: str, *, series: str, singles: str) -> Shelf:
    """Split lists with a slash between titles."""
    return Shelf(genre=genre, series=_titles(series), singles=_titles(singles))


def _titles(text: str) -> tuple[str, ...]:
    return tuple(" ".join(title.split()) for title in text.split("/"))


FILMS = (
    _shelf(
        "Sci-Fi",
        series="Robot Orchard / The Callisto Ferry / Orbit of Glass / Nine Moons of Tessalis",
        singles="""The Tin Comet / Signals from Kepler Bay / A Garden on Phobos / Starship Marigold
        / The Android Who Kept Bees / Gravity for Newcomers / Last Shuttle to Oriel
        / The Quiet Asteroid / Clockwork Satellite / Passengers of the Lumen / Terraform Summer
        / The Cyborg's Pupil / Airlock Lullaby / Two Suns over Meridia / The Hologram Thief
        / Warp Nine to Winter / Mars Has Rivers / The Telescope on Hill Seven""",
    ),
    _shelf(
        "Fantasy",
        series="""The Dragon of Emberfall / Wizards of the Salt Tower / Crown of Thistles
        / The Elf Queen's Map""",
        singles="""A Spell for Mondays / The Griffin's Ledger / Sorcerer in the Rain
        / The Goblin Tailor / Unicorn Ferry / The Enchanted Granary / Runes of the River Folk
        / A Witch in Wexcombe / The Giant's Teaspoon / Knights of the Lilac Order
        / The Mermaid's Umbrella / Castle of Seven Owls / The Alchemist's Goose / Potion Season
        / The Troll under Platform Two / Phoenix on the Roof / The Sleepy Basilisk
        / Pixies of Pennard Wood""",
    ),
    _shelf(
        "Horror",
        series="""The Cellar on Alder Road / Scarecrow Season / The Hollow Choir
        / Whispers in Ward Nine""",
        singles="""The Haunted Gasworks / Midnight at Crowmoor / The Thing beneath the Ice Rink
        / Cold Breath on the Stairs / The Vampire of Plot Forty / Séance in Room Six
        / The Mummy's Lodger / Bone Lantern / Shriek Hollow / The Cursed Carousel
        / Teeth in the Well / A Ghoul at the Gate / The Sexton's Niece / Fog over Gallows Lane
        / The Poltergeist Report / Nightmare Orchard / The Phantom Elevator
        / Don't Open the Attic, Agnes""",
    ),
    _shelf(
        "Mystery",
        series="""Inspector Quill Investigates / The Ravensdale Files / Detective Okafor
        / Murder at Tidewater Inn""",
        singles="""The Missing Cellist / Clue of the Broken Teacup / Who Locked the Library?
        / A Body in the Boathouse / The Alibi of Mrs. Penhale / Suspects for Supper
        / The Vanished Stationmaster / Poison in the Pantry / The Case of the Left Glove
        / Evidence in Green Ink / The Private Eye of Pier Street / Nobody Saw the Gardener
        / The Forged Will of Otto Finch / Fingerprints on the Harp / The Blackmail of Lady Crane
        / Eleven Witnesses / The Culprit Wore Tweed / A Motive for Magda""",
    ),
    _shelf(
        "Western",
        series="""Dusty Creek Riders / The Sheriff of Juniper Gulch / Wagons to Red Mesa
        / Lasso and Lantern""",
        singles="""Six Horses for Elena / The Canyon Telegraph / Saddle Up, Miss Hartley
        / Coyote Wells / A Deputy Named Wren / Gold Dust Sunday / The Prairie Gunsmith
        / Rodeo at Bitter Flats / Stagecoach to Amarga / Tumbleweed Verdict / The Silver Spur Saloon
        / Outlaws of Copper Bend / Cattle Train West / The Marshal Plays Fiddle / Cactus Moonrise
        / Whistling Bronco / The Sagebrush Widow / Ranch of Seven Winds""",
    ),
    _shelf(
        "Documentary",
        series="""Secrets of the Tundra / How Bridges Are Born / The Lives of Rivers
        / Inside the Beehive""",
        singles="""Lichen: A Portrait / The World's Smallest Railways / A Year with Puffins
        / The Men Who Map Caves / Glass: Its History and Makers / Deep Sea Census
        / The True Story of Salt / Weather Stations of the North / Wild Herds of the Steppe
        / Anatomy of a Harbour / Voices of the Weavers / The Science of Bread
        / Coral: A Natural History / Village Football: A Chronicle / The Lighthouse Keepers Remember
        / Forests from Above / Bicycles of the World / The Archive of Lost Languages""",
    ),
    _shelf(
        "Musical",
        series="""Rosalba Sings / The Tap Dance Twins / Curtain Up on Canal Street
        / Ballad of the Blue Trumpet""",
        singles="""High Kicks in Calais / The Accordion Girl / A Waltz for Winnie
        / Encore at the Orpheum Annex / Rhythm on the Roof / The Singing Postman
        / Serenade in Seven Flats / Broadway Is Closed on Mondays / Swing at the Savings Bank
        / The Understudy's Song / Melody Hotel / Foxtrot Fever / Hum a Tune, Henry
        / Trouble in the Orchestra Pit / Four Tenors and a Tuba / Mambo Marquee / The Jazz Milliner
        / Overture for Oona""",
    ),
    _shelf(
        "Romance",
        series="""Letters to Lisbon / The Bakery on Rue Colette / A Kiss before the Ferry
        / Love among the Lemons""",
        singles="""Falling for the Florist of Ghent / My Sweetheart's Umbrella
        / A Wedding in Cork Lane / The Valentine Postcard / Two Hearts, One Tandem
        / Darling, It's Raining / The Matchmaker of Minsk Street / Engaged by Easter
        / Honeymoon in Halifax / The Girl at Table Nine / Marry Me in Marseille
        / An Affair of Teapots / Dearest Ivo / The Bridesmaid's Secret
        / Sweethearts of Spring Street / A Bouquet for Mr. Bell / Love Notes in Latin
        / Once upon a Lunch Date""",
    ),
)

GAMES = (
    _shelf(
        "racing",
        series="Turbo Lagoon / Hairpin Heroes / Kart Parade / Neon Gearbox",
        singles="""Rally of the Northern Lights / Speedway Summer / Desert Dash Racing
        / Grand Circuit Manager / Moto Madeira / Drift School / Truck Race Tundra
        / Formula Junior Cup / Hovercraft Racing League / Off-Road Rascals / Nitro Milk Float
        / Downhill Bike Rush / Street Race Sardinia / Pit Stop Panic / Rocket Sled Racers
        / Vintage Motor Trophy / Sidecar Sprint / Slot Car Shootout""",
    ),
    _shelf(
        "sports",
        series="Five-a-Side Stars / Table Tennis Titans / Alpine Ski Weekend / Pocket Basketball",
        singles="""Village Cricket Captain / Curling Club / Beach Volleyball Bay / Rugby Rumble
        / Golf on Windy Island / Street Hockey Heroes / Tennis Tour Academy / Judo Belt Challenge
        / Rowing Regatta / Badminton Blitz / Archery Tournament / Snowboard Jam / Handball Nation
        / Swim Meet / Bowling Night / Football Coach Diary / Gymnastics Gala
        / Climbing Wall Champion""",
    ),
    _shelf(
        "controllers",
        series="""Novadeck Wireless Controller / Quillbox Charging Dock / Kestrel Stereo Headset
        / Lumo Steering Wheel""",
        singles="""Silicone Grip Covers for Novadeck / Quillbox Travel Case
        / Kestrel Screen Protector, Pack of 2 / Lumo Memory Card 64 GB / Braided Charging Cable 3 m
        / Novadeck Cooling Stand / Spare Thumbsticks, Pack of 4 / Quillbox Battery Pack
        / Kestrel Video Adapter / Lumo Dance Mat / Novadeck Remote Control
        / Arcade Stick with 8 Buttons / Quillbox Wall Mount / Stylus Pens, Pack of 3
        / Kestrel Microphone / Lumo Light Gun &amp; Holster / Cartridge Storage Tower
        / Novadeck Power Supply""",
    ),
    _shelf(
        "role-playing",
        series="""Chronicles of Ambermoor / Sword &amp; Lantern / The Ninth Rune
        / Guild of the Grey Heron""",
        singles="""Paladin's Oath / Realm of Broken Bells / The Sorceress Road
        / Dungeon of the Sunken King / Blade of Winterfen / Legend of the Copper Crown
        / Quest for the Moonwell / Bard &amp; Basilisk / The Ember Prophecy / Mage Academy Online
        / Shadows over Brackenhold / Heirs of the Hollow Throne / Tales of Sir Osric
        / Dragonkeeper's Daughter / The Runesmith / Quest of the Five Relics / Crypts of Old Vael
        / Warden of the Wild Realm""",
    ),
    _shelf(
        "strategy",
        series="Empire of Canals / Harbour Wars / Colony Ship Council / Generals of Clay",
        singles="""Siege of Port Halloran / Railway Barons' Club / Fleet Admiral: Cold Straits
        / Tribes of the Plateau / City Planner Deluxe / Tactics on the Tigris / Outpost Commander
        / Hexes &amp; Banners / Kingdom Ledger / Merchant Republic / Frontline Chess
        / Bronze Age Builder / The Diplomat&#39;s Game / Trench Map 1916 / Warlords of the Delta
        / Space Station Governor / Castle Supply Line / Conquest by Committee""",
    ),
    _shelf(
        "farming",
        series="Clover Valley Farm / Our Little Vineyard / Tractor Town / Orchard &amp; Apiary",
        singles="""Pumpkin Patch Days / Alpaca Ranch / Greenhouse Life / Fisher Cove
        / Market Garden Story / Dairy Dreams / Bakery Street / Island Homestead / Sheepdog Seasons
        / Flower Shop Friends / Barn Builder / Cozy Campground / Harvest Fair / Rice Terrace
        / Cottage Cook / Honey Meadow / Pony Stable Life / Tea Plantation Diary""",
    ),
    _shelf(
        "puzzle",
        series="Block Aquarium / Professor Pym&#39;s Riddles / Tilt Maze / Word Lighthouse",
        singles="""Marble Logic / Nonogram Nights / Mahjong Pagoda / Sliding Tiles Deluxe
        / Bubble Cascade / Hidden Objects: Attic / Crossword Caravan / Sudoku Safari
        / The Plumber's Path / Gem Match Manor / Domino Cathedral / Brain Teaser Bistro
        / Jigsaw Gallery / Laser &amp; Mirror / Tangram Temple / Number Crunch Café
        / Escape from Room 12 / Matchstick Mind""",
    ),
    _shelf(
        "platform",
        series="""Pip the Otter / Cloudhopper / Captain &quot;Breeze&quot; Malone
        / Bolt &amp; Bramble""",
        singles="""Jumping Jellybean / Super Sock Adventure / Frogbert Leaps / Coin Cavern Caper
        / Monkey on a Spring / Penguin Panic Island / Bounce Castle / The Amazing Acrobat Ant
        / Mushroom Mile / Ninja Newt / Tiny Robot, Tall Tower / Squirrel Dash / Trampoline Kingdom
        / Lava Leap / Rolling Armadillo / Kangaroo Kate / Gumdrop Glider / Bunny Hop Boulevard""",
    ),
)

REPEATED_GAMES = ("Drift School", "Mage Academy Online", "Mahjong Pagoda", "Lumo Dance Mat")
"""Sold twice, under two ids."""
