//! Words that stand for each other in requests and in descriptions of tools.
//!
//! General English, one group a line; a group says nothing about any single server. Measured with
//! `benches/search_quality.rs`: kept small, because every group also blurs.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::words::term;

/// What is done. Such words are in every catalogue, so they count little.
const ACTIONS: &str = "
    get fetch retrieve show view display read obtain
    list enumerate show browse
    search find lookup query locate discover
    create add new make insert generate
    delete remove erase drop clear
    update edit modify change alter set adjust
    send post submit share message deliver
    buy purchase order shop
    start launch run begin execute
    stop end cancel terminate halt abort
    compute calculate evaluate
    convert transform translate exchange
    compare difference versus diff
    analyze analysis examine inspect investigate review
    summarize summary summarise brief digest highlights
    recommend suggest suggestion recommendation advice
    book reserve reservation booking schedule
    join merge combine concatenate
    check verify validate test
    download save export
    upload import
    open navigate visit go browse
    close shut
    move rename transfer relocate
    write compose draft
    learn study education tutor teach lesson course
    play game gaming";

/// What it is done to.
const THINGS: &str = "
    file document doc
    folder directory
    picture image photo photograph drawing illustration logo
    film movie cinema
    song music track playlist
    video clip youtube
    website webpage page site url web
    internet web online
    email mail inbox
    car vehicle auto automobile
    house home property apartment realestate
    flight airline plane airport
    trip travel journey vacation itinerary tour
    hotel accommodation lodging stay
    restaurant food dining meal cuisine
    recipe cook cooking dish ingredient
    weather forecast temperature climate
    news headline article
    paper research scientific literature scholar academic publication study
    stock share equity ticker
    crypto cryptocurrency bitcoin token coin
    money currency cash finance financial
    price cost fee quote
    job career employment vacancy position
    cv resume
    person people user contact
    company business firm organization corporation
    customer client
    meeting appointment event calendar
    task todo reminder
    doctor physician medical health
    medicine drug medication
    law legal attorney lawyer
    exercise workout fitness
    map location place address direction
    distance far length
    picture chart graph plot diagram visualization
    database table sql
    bug issue ticket
    repo repository git
    pr pull request
    code program programming script software
    app application
    site deploy hosting
    gift present
    product item goods
    discount coupon deal promo
    password credential login
    k8s kubernetes
    animal pet dog cat
    joke humor funny
    horoscope astrology zodiac tarot
    language translate grammar
    word vocabulary dictionary definition";

/// What a match by a synonym is worth beside a match by the word itself.
const ACTION_WEIGHT: f32 = 0.3;
const THING_WEIGHT: f32 = 0.6;

/// The terms that stand for `of`, with what they are worth.
pub(super) fn synonyms(of: &str) -> &'static [(String, f32)] {
    static GROUPS: LazyLock<HashMap<String, Vec<(String, f32)>>> = LazyLock::new(|| {
        let mut groups = HashMap::<String, Vec<(String, f32)>>::new();
        for (text, weight) in [(ACTIONS, ACTION_WEIGHT), (THINGS, THING_WEIGHT)] {
            for line in text.lines() {
                let group: Vec<String> = line.split_whitespace().map(term).collect();
                for one in &group {
                    let others = group.iter().filter(|other| *other != one).map(|other| (other.clone(), weight));
                    groups.entry(one.clone()).or_default().extend(others);
                }
            }
        }
        groups
    });
    GROUPS.get(of).map_or(&[], Vec::as_slice)
}
